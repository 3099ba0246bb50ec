import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call } from '../data/call.ts';
import { useAnswer } from '../data/hooks.ts';
import { useMay, useWorkspace } from '../data/session.ts';
import { Form } from '../parts/form.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { Decisions, useDecisions, type Of } from '../parts/outcomes.tsx';
import { Page, Section, usePath } from '../parts/page.tsx';
import { Empty } from '../parts/text.tsx';
import type { Billing } from './customers/credits.tsx';
import type { ApiKey } from './keys/keys.tsx';
import { useKey, Verdict } from './why-verdict.tsx';

type Found = { keys: ApiKey[]; records: Billing[]; isWhole: boolean };

const WHAT = 'name, customer, id or part of a key; or a meter';
const MOST_FOUND = 20;
// Each looks through 1,000 keys.
const MOST_SEARCHES = 20;

/** Why was this refused? Takes a key or a customer; shows the last decisions, what refused, and what would change it. */
export function Why() {
  const { query, route } = useLocation();
  const pathOf = usePath();
  const search = useSearch();
  const [found, setFound] = useState<Found>();
  const { key, record } = query;
  return (
    <Page title="Why was this refused?">
      <Form
        submit="Find"
        look="row"
        fields={[{ name: 'text', label: 'Key or customer', as: 'search', required: true, placeholder: WHAT }]}
        onSubmit={async ({ text }) => {
          const asked = location.href;
          setFound(undefined);
          const { keys, records, isWhole } = await search(text);
          // Who has gone on meanwhile is not taken back.
          if (location.href !== asked) return;
          setFound({ keys, records, isWhole });
          const [only] = isWhole && keys.length + records.length === 1 ? addressesOf(keys, records) : [];
          route(pathOf(only ?? 'why'));
        }}
      />
      {found && key === undefined && record === undefined && <Choices of={found} />}
      {key !== undefined && <OfKey key={key} apiKeyId={key} />}
      {record !== undefined && <OfRecord key={record} bid={record} />}
    </Page>
  );
}

function useSearch(): (text: string) => Promise<Found> {
  const may = useMay();
  const { id } = useWorkspace();
  return async (text) => {
    const [found, records] = await Promise.all([
      may('key:read') ? findKeys(id, text) : { keys: [], isWhole: true },
      may('billing:read')
        ? call('get /api/v1/workspace/{id}/customer-billings', { id, externalMeterId: text }).then(
            (one) => one.billings,
          )
        : [],
    ]);
    return { ...found, records };
  };
}

async function findKeys(id: string, text: string): Promise<Omit<Found, 'records'>> {
  if (/^key_\w{26}$/.test(text)) {
    const akid = text;
    return { keys: [(await call('get /api/v1/workspace/{id}/api-key/{akid}', { id, akid })).apiKey], isWhole: true };
  }
  const keys: ApiKey[] = [];
  let cursor: string | undefined;
  for (let i = 0; i < MOST_SEARCHES && keys.length < MOST_FOUND; i++) {
    const input = { id, search: text, limit: MOST_FOUND - keys.length, ...(cursor && { cursor }) };
    const page = await call('get /api/v1/workspace/{id}/api-keys', input);
    keys.push(...page.apiKeys);
    if ((cursor = page.nextCursor) === undefined) return { keys, isWhole: true };
  }
  return { keys, isWhole: false };
}

function addressesOf(keys: readonly ApiKey[], records: readonly Billing[]): string[] {
  return [...keys.map((one) => `why?key=${one.id}`), ...records.map((one) => `why?record=${one.id}`)];
}

function Choices({ of: { keys, records, isWhole } }: { of: Found }) {
  const pathOf = usePath();
  const notWhole = !isWhole && (
    <p class="muted">Not all keys were looked through: an id, or more of the name, finds one for sure.</p>
  );
  if (keys.length + records.length === 0)
    return notWhole || <Empty>No key and no record fits. A meter is looked for as a whole, in its own case.</Empty>;
  return (
    <Section title="Which one?">
      <ul class="plain">
        {records.map((one) => (
          <li key={one.id}>
            <a href={pathOf(`why?record=${one.id}`)}>All keys of the meter {one.externalMeterId}</a>
          </li>
        ))}
        {keys.map((one) => (
          <li key={one.id}>
            <a href={pathOf(`why?key=${one.id}`)}>{one.name}</a> <code>{one.maskedKey}</code>
            {one.customerId && <span class="muted"> of {one.customerId}</span>}
          </li>
        ))}
      </ul>
      {notWhole}
    </Section>
  );
}

function OfKey({ apiKeyId }: { apiKeyId: string }) {
  const pathOf = usePath();
  const key = useKey(apiKeyId);
  return (
    <>
      {key && (
        <h2>
          The key <a href={pathOf(`keys/${key.id}`)}>{key.name}</a>
        </h2>
      )}
      <Answer of={{ apiKeyId }} bid={key?.billingId} />
    </>
  );
}

function OfRecord({ bid }: { bid: string }) {
  const { id: workspaceId } = useWorkspace();
  const pathOf = usePath();
  return (
    <Loaded of={useAnswer('get /api/v1/customer-billing/{bid}', { bid })}>
      {({ billing: { externalMeterId } }) => (
        <>
          <h2>
            Keys of the meter <a href={pathOf(`customers/${bid}`)}>{externalMeterId}</a>
          </h2>
          <Answer of={{ workspaceId, externalMeterId }} bid={bid} />
        </>
      )}
    </Loaded>
  );
}

function Answer({ of, bid }: { of: Of; bid: string | undefined }) {
  return (
    <Loaded of={useDecisions(of)}>
      {(decisions) => {
        const refused = decisions.find(({ status }) => status !== 'VALID');
        return (
          <>
            {refused && <Verdict of={refused} bid={bid} />}
            {!refused && decisions.length > 0 && <Empty>None of its last {decisions.length} calls was refused.</Empty>}
            <Decisions items={decisions} withKey={!('apiKeyId' in of)} />
            <p class="muted">
              The last 100 decisions of 24 hours, and of refusals at most ten a second of a key. Its own page counts
              all.
            </p>
          </>
        );
      }}
    </Loaded>
  );
}
