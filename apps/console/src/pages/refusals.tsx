import type { ComponentChildren } from 'preact';
import { reasons, type Reason } from '../../../../shared/contract/reasons.ts';
import { grouped } from '../data/amounts.ts';
import { useAnswer, useMay, useWorkspace, type Workspace } from '../data/hooks.ts';
import { windowOf } from '../parts/limits.tsx';
import { Decisions, Outcome, type Decision, type Of } from '../parts/outcomes.tsx';
import { Section } from '../parts/page.tsx';
import { Facts, Loaded, Time } from '../parts/text.tsx';
import type { Billing } from './customers/credits.tsx';
import type { ApiKey } from './keys/keys.tsx';

type Known = { key: ApiKey | undefined; billing: Billing | undefined; workspace: Workspace };
type Place = 'key' | 'billing' | 'workspace' | 'customers';
// The limit that is a number of its own, beside the list of limits.
const RATE_NAME = 'rateLimitPerSecond';

/** Where each refusal would be changed, and what is so there by now. */
const places: Partial<Record<Reason, { at: Place; now?(known: Known): ComponentChildren }>> = {
  CREDITS_USED_UP: {
    at: 'billing',
    now: ({ billing }) => billing && `${grouped(billing.availableCredits)} credits are available`,
  },
  SPEND_CAP_REACHED: {
    at: 'billing',
    now: ({ billing }) =>
      billing?.spendCap && `${grouped(billing.usedCredits)} of ${grouped(billing.spendCap)} are used`,
  },
  NO_BILLING_RECORD: {
    at: 'customers',
    now: ({ key }) => key && (key.billingId ? 'the meter has a record' : 'the meter has none'),
  },
  DISABLED: { at: 'key', now: ({ key }) => key && (key.enabled ? 'the key is enabled' : 'the key is disabled') },
  EXPIRED: {
    at: 'key',
    now: ({ key }) =>
      key?.expiresAt && (
        <>
          its end is <Time at={key.expiresAt} />
        </>
      ),
  },
  IP_NOT_ALLOWED: {
    at: 'key',
    now: ({ key }) =>
      key && `it may come from ${key.allowedIPs?.join(', ') ?? 'any address, or those of the workspace'}`,
  },
  SCOPE_MISSING: { at: 'key' },
};

/** The last decisions of a key or of the keys of a record, and why the last call that was refused was. */
export function Refusals({ of, bid }: { of: Of; bid: string | undefined }) {
  const { value, problem } = useAnswer('get /api/v1/verifications/recent', of);
  const refused = value?.data.find(({ status }) => status !== 'VALID');
  return (
    <Section title="Recent decisions">
      {refused && <Verdict of={refused} bid={bid} />}
      <Loaded of={{ value, problem }}>{({ data }) => <Decisions items={data} withKey={!of.apiKeyId} />}</Loaded>
      <p class="muted">The last 100 decisions of 24 hours, and of refusals at most ten a second of a key.</p>
    </Section>
  );
}

function Verdict({ of: decision, bid }: { of: Decision; bid: string | undefined }) {
  const { id, workspace, pathOf } = useWorkspace();
  const may = useMay();
  const { reason, limitedBy, apiKeyId: akid } = decision;
  const ofKey = may('key:read') ? { id, akid } : undefined;
  const key = useAnswer('get /api/v1/workspace/{id}/api-key/{akid}', ofKey).value?.apiKey;
  const ofRecord = bid && may('billing:read') ? { bid } : undefined;
  const billing = useAnswer('get /api/v1/customer-billing/{bid}', ofRecord).value?.billing;
  const known = { key, billing, workspace };
  const place = reason && places[reason];
  const links: Record<Place, ComponentChildren> = {
    key: <a href={pathOf(`keys/${akid}`)}>The key</a>,
    billing: billing && <a href={pathOf(`customers/${billing.id}`)}>The record</a>,
    workspace: <a href={pathOf('settings')}>The defaults of the workspace</a>,
    customers: <a href={pathOf('customers')}>The records</a>,
  };
  const at = limitedBy?.on ?? place?.at;
  return (
    <section class="verdict" aria-label="The last refusal">
      <Facts
        of={[
          ['Last refused', <Time at={decision.time} />],
          ['Answer', <Outcome status={decision.status} />],
          ['Why', reason ? reasons[reason].means : 'The call was refused.'],
          ...(limitedBy ? limitFacts(limitedBy, known) : []),
          ['What would change it', reason && reasons[reason].change],
          ['Where', at && links[at]],
          ['Now', place?.now?.(known)],
        ]}
      />
    </section>
  );
}

/** The limit that refused, and what it is by now where that is something else. */
function limitFacts(limitedBy: NonNullable<Decision['limitedBy']>, { key, billing, workspace }: Known) {
  const { on, name, limit } = limitedBy;
  const lists = { key: key?.limits, workspace: workspace.defaultLimits, billing: billing?.limits };
  const one = lists[on]?.find((other) => other.name === name);
  const rate = on === 'workspace' ? workspace.defaultRateLimitPerSecond : key?.rateLimitPerSecond;
  const [window, now] = name === RATE_NAME ? ['requests per second', rate] : [one && windowOf(one), one?.limit];
  const whose = { key: 'the key', workspace: "the workspace's keys", billing: 'the record' }[on];
  return [
    ['Limit', `${name} of ${whose}: at most ${grouped(String(limit))} ${window ?? ''}`],
    ['By now', now !== undefined && String(now) !== String(limit) && `at most ${grouped(String(now))}`],
  ] as const;
}
