import { call, type Input } from '../../data/call.ts';
import { useAnswer, useMay, useWorkspace } from '../../data/hooks.ts';
import { Ask, Switch } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { windowOf } from '../../parts/limits.tsx';
import { OwnList } from '../../parts/own-list.tsx';
import { Page } from '../../parts/page.tsx';
import { Amount, Facts, Loaded, None, PageLink, State, Time } from '../../parts/text.tsx';
import { Calls } from '../calls.tsx';
import { useLimitKind } from '../limits-used.ts';
import { changedIn, customerPage, stateOf, type ApiKey } from './api-key.ts';
import { KeyScopes } from './scopes.tsx';

type Change = Omit<Input<'patch /api/v1/workspace/{id}/api-key/{akid}'>, 'id' | 'akid'>;
type OnChange = (what: Change) => Promise<unknown>;

/** One key, and what can be done with it. */
export function Key({ id: akid }: { id: string }) {
  const read = useAnswer('get /api/v1/workspace/{id}/api-key/{akid}', { id: useWorkspace().id, akid });
  return <Loaded of={read}>{({ apiKey }) => <KeyPage of={apiKey} />}</Loaded>;
}

function KeyPage({ of: key }: { of: ApiKey }) {
  const may = useMay();
  const { id, workspace } = useWorkspace();
  const of = { id, akid: key.id };
  const limitKind = useLimitKind(key.limits, { apiKeyId: key.id });
  const inherited = key.limits === undefined && workspace.defaultLimits?.map(windowOf).join(', ');
  const empty = inherited ? `As the workspace says: ${inherited}. A limit of the key replaces these.` : limitKind.empty;
  const needs = !key.deleted && 'key:write';
  const change: OnChange = (what) => call('patch /api/v1/workspace/{id}/api-key/{akid}', { ...of, ...what });
  return (
    <Page title={key.name} action={may(needs) && <Actions of={key} onChange={change} />}>
      {key.earlierSecretsUntil !== undefined && (
        <section class="notice" aria-label="The earlier secret">
          <p>
            The secret of before still works, until <Time at={key.earlierSecretsUntil} />. When it was last used is not
            known apart from the new one.
          </p>
          <Form
            submit="End it now"
            look="minor"
            needs={needs}
            onSubmit={() => call('delete /api/v1/workspace/{id}/api-key/{akid}/earlier-secrets', of)}
          />
        </section>
      )}
      <KeyFacts of={key} />
      <OwnList
        title="Limits"
        of={{ ...limitKind, empty }}
        items={key.limits}
        needs={needs}
        read={async () => (await call('get /api/v1/workspace/{id}/api-key/{akid}', of)).apiKey.limits}
        onChange={(limits) => change({ limits })}
      />
      {may('usage:read') && <Calls of={{ apiKeyId: key.id }} bid={key.billingId} />}
      <KeyScopes key={key.id} of={key} needs={needs} onChange={change} />
    </Page>
  );
}

function KeyFacts({ of: key }: { of: ApiKey }) {
  const { externalMeterId: meter, customerId, metadata = {} } = key;
  const page = customerPage(key);
  const paid = useMay()('billing:read') && key.billingId ? { bid: key.billingId } : undefined;
  const billing = useAnswer('get /api/v1/customer-billing/{bid}', paid).value?.billing;
  const { workspace } = useWorkspace();
  const rate = key.rateLimitPerSecond ?? workspace.defaultRateLimitPerSecond;
  const addresses = key.allowedIPs ?? workspace.defaultAllowedIPs;
  const byWorkspace = (own: unknown) => (own === undefined ? ', as the workspace says' : '');
  const told = Object.entries(metadata).map(([name, value]) => {
    const shown = typeof value === 'string' ? value : <code>{JSON.stringify(value)}</code>;
    return [`Metadata: ${name}`, shown] as const;
  });
  return (
    <Facts
      of={[
        ['State', <State of={stateOf(key)} />],
        ['Key', <code>{key.maskedKey}</code>],
        ['Id', <code>{key.id}</code>],
        ['Customer', <PageLink to={page}>{meter ?? customerId ?? <None>none: its calls cost nothing</None>}</PageLink>],
        ['Credits left', billing && <Amount of={billing.availableCredits} />],
        ['Customer id', customerId !== meter && customerId],
        ['Expires', <Time at={key.expiresAt} />],
        ['Last used', <Time at={key.lastUsedAt} isAgo />],
        ['Created', <Time at={key.createdAt} />],
        ['Requests per second', rate && `at most ${rate}${byWorkspace(key.rateLimitPerSecond)}`],
        [
          'May come from',
          addresses.length > 0 ? `${addresses.join(', ')}${byWorkspace(key.allowedIPs)}` : <None>any address</None>,
        ],
        ...told,
      ]}
    />
  );
}

function Actions({ of: key, onChange }: { of: ApiKey; onChange: OnChange }) {
  const of = { id: useWorkspace().id, akid: key.id };
  const rotate = (graceSeconds: number) =>
    call('post /api/v1/workspace/{id}/api-key/{akid}/rotate', { ...of, graceSeconds });
  const addresses = 'Addresses and CIDR blocks it may come from, with commas between. Empty: as the workspace says.';
  const { rateLimitPerSecond: value } = key;
  const rate = { as: 'number', min: '1', value, hint: 'Empty: as the workspace says.' } as const;
  const end = { as: 'moment', hint: 'In your time zone. Empty: never.', value: key.expiresAt } as const;
  return (
    <>
      <Rotate look="main" onRotate={rotate} />
      <Ask
        does="Edit"
        one="key"
        fields={[
          { name: 'name', label: 'Name', required: true, maxLength: 128, value: key.name },
          { name: 'expiresAt', label: 'Expires', clears: true, ...end },
          { name: 'rateLimitPerSecond', label: 'Requests per second', clears: true, ...rate },
          { name: 'allowedIPs', label: 'Addresses', clears: true, value: key.allowedIPs?.join(', '), hint: addresses },
        ]}
        onSubmit={(given) => onChange(changedIn(key, given))}
      />
      <Switch is={key.enabled} onChange={onChange} />
      <Ask
        does="Delete"
        one="key"
        onSubmit={() => call('delete /api/v1/workspace/{id}/api-key/{akid}', of)}
        says={`${key.name} never verifies again. Its record and its usage stay readable. To refuse it for a while, disable it instead.`}
      />
    </>
  );
}

type RotateProps = {
  row?: string;
  look?: 'main';
  onRotate(graceSeconds: number): Promise<{ apiKey: { key: string } }>;
};

// In seconds. Whoever rotates says which it is: what is right for a plan is wrong for a leak.
const graces = [
  ['', 'choose'],
  ['0', 'not at all: it leaked, or may have'],
  ['3600', 'an hour'],
  ['86400', 'a day'],
  ['604800', '7 days'],
] as const;

/** Asks how long the earlier secret goes on, and shows the new one. */
export function Rotate({ onRotate, ...button }: RotateProps) {
  return (
    <Ask
      does="Rotate"
      one="key"
      {...button}
      fields={[{ name: 'grace', label: 'Keep the old secret working for', options: graces, required: true, value: '' }]}
      onSubmit={({ grace }) => onRotate(Number(grace))}
      shows={({ apiKey }) => ({ title: 'The new secret', label: 'Secret of the key', text: apiKey.key })}
      says="The key gets a new secret. It keeps its id, its settings and its usage."
    />
  );
}
