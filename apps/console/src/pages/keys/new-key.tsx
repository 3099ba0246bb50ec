import { useState } from 'preact/hooks';
import { call, wrong } from '../../data/call.ts';
import { readItems, useAnswer, useMay, useProblem, useWorkspace } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Field, type Fields } from '../../parts/form.tsx';
import { windows } from '../../parts/limits.tsx';
import { ProblemNote, State } from '../../parts/text.tsx';
import { resultOf } from '../calls.tsx';
import { scopeFields, scopesIn } from './scopes.tsx';

// More scopes than that are ticked on the page of the key.
const MOST_SCOPES = 12;
const SUGGESTED = 200;
const LOOK_MS = 2_000;

/** A button that makes a key, with all that it needs: its customer and first credits, limits, scopes and end. */
export function NewKey({ customer, look = 'main' }: { customer?: string; look?: 'main' | 'outline' }) {
  const may = useMay();
  const { id: workspaceId, workspace } = useWorkspace();
  const problemOf = useProblem();
  const [mayBill, mayScope] = [may('billing:write') && may('billing:read'), may('workspace:read')];
  const reads = async () => {
    const [billings, { scopes }] = await Promise.all([
      mayBill
        ? readItems('get /api/v1/workspace/{id}/customer-billings', { id: workspaceId, limit: SUGGESTED }, { pages: 1 })
        : [],
      mayScope ? call('get /api/v1/workspace/{id}/scopes', { id: workspaceId }) : { scopes: [] },
    ]);
    const suggests = billings.map(({ externalMeterId }) => externalMeterId);
    return { suggests, scopes: scopes.length <= MOST_SCOPES ? scopes : [] };
  };
  const pay = async (externalMeterId: string, credits: string | undefined) => {
    const asked = { id: workspaceId, externalMeterId };
    const [known] = await readItems('get /api/v1/workspace/{id}/customer-billings', asked, { pages: 1 });
    if (!known) await call('post /api/v1/customer-billing', { workspaceId, externalMeterId, totalCredits: credits });
    else if (credits !== undefined)
      await call('post /api/v1/customer-billing/refill', { workspaceId, externalMeterId, refill: credits });
  };
  // Keys of one customer have one id of it: the portal shows a balance only to whom all keys are.
  const idOf = async (externalMeterId: string) => {
    const asked = { id: workspaceId, externalMeterId, limit: 1 };
    const keys = may('key:read') ? await readItems('get /api/v1/workspace/{id}/api-keys', asked, { pages: 1 }) : [];
    return keys[0] ? keys[0].customerId : externalMeterId;
  };
  const whose = 'Its calls draw on the credits of this customer. Empty: its calls cost nothing.';
  const credit = 'Added now, for a new customer or one that is there. Empty: none.';
  return (
    <Ask
      does="New"
      one="key"
      look={look}
      needs="key:write"
      reads={reads}
      fields={({ suggests, scopes }) => [
        { name: 'name', label: 'Name', required: true, maxLength: 128 },
        { name: 'customer', label: 'Customer', value: customer, suggests, hint: whose },
        ...(mayBill ? ([{ name: 'credits', label: 'Credits', as: 'credits', hint: credit }] as const) : []),
        { name: 'limit', label: 'At most so many requests', as: 'number', min: '1', hint: 'Empty: no limit.' },
        { name: 'per', label: 'In each', options: windows, value: 'day' },
        { name: 'rateLimitPerSecond', label: 'Requests per second', as: 'number', min: '1' },
        { name: 'expiresAt', label: 'Expires', as: 'moment', hint: 'In your time zone. Empty: as the workspace says.' },
        { name: 'prefix', label: 'Prefix', placeholder: workspace.defaultKeyPrefix ?? 'key' },
        ...(scopeFields(scopes) as Fields),
      ]}
      onSubmit={async (given) => {
        const { name, customer: meter, credits, limit, per = 'day', ...own } = given as Wanted;
        const { rateLimitPerSecond, expiresAt, prefix } = own;
        // Without one its calls cost nothing, which who gives it credits does not want.
        if (credits !== undefined && !meter)
          throw wrong('Whose credits are these?', [{ path: 'customer', message: 'must be given with credits' }]);
        const made = { workspaceId, name, rateLimitPerSecond, expiresAt, prefix, externalMeterId: meter };
        const { apiKey } = await call('post /api/v1/api-key', {
          ...made,
          customerId: meter && (await idOf(meter)),
          scopes: scopesIn(given),
          ...(limit !== undefined && { limits: [{ name: `per ${per}`, unit: 'requests', limit, per }] }),
        });
        // After the key: where that is refused nothing was added, and another try adds nothing twice.
        const unpaid = meter !== undefined && mayBill && (await pay(meter, credits).then(() => undefined, problemOf));
        return { apiKey, unpaid: unpaid || undefined };
      }}
      shows={({ apiKey, unpaid }) => ({
        title: 'The new key',
        label: 'Secret of the key',
        text: apiKey.key,
        more: (
          <>
            {unpaid && <p>The key works. Whether its credits were added is not sure: its customer's page tells.</p>}
            <ProblemNote problem={unpaid} />
            <FirstCall of={apiKey} />
          </>
        ),
      })}
    />
  );
}

type Wanted = { name: string } & Partial<Record<'customer' | 'credits' | 'per' | 'prefix', string>> &
  Partial<Record<'limit' | 'rateLimitPerSecond' | 'expiresAt', number>>;

const samples = {
  curl: (url: string, key: string) =>
    `curl ${url}/api/v1/api-key/verify -H "Authorization: Bearer $KEYTALLY_TOKEN" -H 'Content-Type: application/json' -d '{"key": "${key}"}'`,
  Node: (url: string, key: string) =>
    `await keytally({ url: '${url}', token: process.env.KEYTALLY_TOKEN }).verify({ key: '${key}' });`,
  Python: (url: string, key: string) =>
    `Client(url="${url}", token=os.environ["KEYTALLY_TOKEN"]).verify({"key": "${key}"})`,
  Go: (url: string, key: string) =>
    `client, _ := keytally.New(keytally.Options{URL: "${url}", Token: os.Getenv("KEYTALLY_TOKEN")}); client.Verify(ctx, keytally.Verification{Key: "${key}"})`,
};
type Language = keyof typeof samples;
const languages = Object.keys(samples) as Language[];

/** A line that verifies a new key in some languages, and whether its first call has come. */
function FirstCall({ of: { id: apiKeyId, key } }: { of: { id: string; key: string } }) {
  const [language, setLanguage] = useState<Language>('curl');
  const input = useMay()('usage:read') ? { apiKeyId } : undefined;
  const recent = useAnswer('get /api/v1/verifications/recent', input, LOOK_MS);
  const choose = (one: string) => setLanguage(one as Language);
  const [first] = recent.value?.data ?? [];
  return (
    <>
      <Field label="Verify it by" name="language" options={languages} value={language} onText={choose} />
      <pre tabIndex={0}>
        <code>{samples[language](location.origin, key)}</code>
      </pre>
      <p role="status">
        {first ? 'Its first call came: ' : recent.value && 'Waiting for its first call…'}
        {first && <State of={resultOf(first)} />}
      </p>
    </>
  );
}
