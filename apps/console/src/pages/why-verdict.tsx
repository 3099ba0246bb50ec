import type { ComponentChildren } from 'preact';
import { grouped } from '../data/amounts.ts';
import { useAnswer } from '../data/hooks.ts';
import { useMay, useWorkspace, type Workspace } from '../data/session.ts';
import { windowOf, type Limit } from '../parts/limits.tsx';
import { Outcome, type Decision } from '../parts/outcomes.tsx';
import { usePath } from '../parts/page.tsx';
import { Facts, Time } from '../parts/text.tsx';
import type { Billing } from './customers/credits.tsx';
import type { ApiKey } from './keys/keys.tsx';

type Known = { key: ApiKey | undefined; billing: Billing | undefined; workspace: Workspace };
// The limit that is a number of its own, beside the list of limits.
const RATE_NAME = 'rateLimitPerSecond';

type Told = { why: ComponentChildren; change: ComponentChildren; now?: ComponentChildren };

/** Why the last call was refused, what would change it, and whether that has happened since. */
export function Verdict({ of: decision, bid }: { of: Decision; bid: string | undefined }) {
  const workspace = useWorkspace();
  const key = useKey(decision.apiKeyId);
  const billing = useBilling(bid ?? key?.billingId);
  const { why, change, now } = useTold(decision, { key, billing, workspace });
  return (
    <section class="verdict" aria-label="The last refusal">
      <Facts
        of={[
          ['Last refused', <Time at={decision.time} />],
          ['Answer', <Outcome status={decision.status} />],
          ['Why', why],
          ['What would change it', change],
          ['Now', now],
        ]}
      />
    </section>
  );
}

/** The key, if the token may read it. */
export function useKey(akid: string): ApiKey | undefined {
  const mayRead = useMay()('key:read');
  const { id } = useWorkspace();
  const input = mayRead ? { id, akid } : undefined;
  return useAnswer('get /api/v1/workspace/{id}/api-key/{akid}', input).value?.apiKey;
}

function useBilling(bid: string | undefined): Billing | undefined {
  const mayRead = useMay()('billing:read');
  return useAnswer('get /api/v1/customer-billing/{bid}', bid && mayRead ? { bid } : undefined).value?.billing;
}

function useTold({ apiKeyId, reason, limitedBy }: Decision, known: Known): Told {
  const pathOf = usePath();
  const { key, billing } = known;
  const keyLink = (text: string) => <a href={pathOf(`keys/${apiKeyId}`)}>{text}</a>;
  const recordLink = (text: string) => (billing ? <a href={pathOf(`customers/${billing.id}`)}>{text}</a> : text);
  switch (reason) {
    case 'LIMIT_REACHED':
    case 'RATE_LIMIT':
      return ofLimit(limitedBy, known, { key: keyLink, billing: recordLink, settings: pathOf('settings') });
    case 'CREDITS_USED_UP':
      return {
        why: 'The call cost more than its record has left.',
        change: <>{recordLink('Add credits to the record')}, or let it go on when they are used up.</>,
        now: billing && `${grouped(billing.availableCredits)} credits are available`,
      };
    case 'SPEND_CAP_REACHED':
      return {
        why: 'The call would have taken the record beyond its spend cap.',
        change: <>{recordLink('Raise the spend cap of the record')}, or clear it: more credits do not help.</>,
        now: billing?.spendCap && `${grouped(billing.usedCredits)} of ${grouped(billing.spendCap)} are used`,
      };
    case 'NO_BILLING_RECORD':
      return {
        why: `The call had a cost, and no record has the key's meter${key?.externalMeterId ? `, ${key.externalMeterId}` : ''}.`,
        change: <a href={pathOf('customers')}>Make a record for the meter.</a>,
        now: key && (key.billingId ? 'the meter has a record' : 'the meter has none'),
      };
    case 'DISABLED':
      return {
        why: 'The key was disabled.',
        change: <>{keyLink('Enable the key.')}</>,
        now: key && (key.enabled ? 'the key is enabled' : 'the key is disabled'),
      };
    case 'EXPIRED':
      return {
        why: 'The key had reached its end.',
        change: <>{keyLink('Give the key a later end')}, or the customer a new key.</>,
        now: key?.expiresAt !== undefined && (
          <>
            its end is <Time at={key.expiresAt} />
          </>
        ),
      };
    case 'DELETED':
      return { why: 'The key was deleted.', change: 'Nothing brings it back: give the customer a new key.' };
    case 'IP_NOT_ALLOWED':
      return {
        why: 'The call came from an address that the key may not be used from.',
        change: <>{keyLink('Add the address to those of the key.')}</>,
        now: key && `it may come from ${key.allowedIPs?.join(', ') ?? 'any address, or those of the workspace'}`,
      };
    case 'SCOPE_MISSING':
      return {
        why: 'The call asked for a scope that the key was not granted.',
        change: <>{keyLink('Grant the scope to the key.')}</>,
      };
    default:
      return { why: reason ?? 'The call was refused.', change: 'Another secret: this one is not valid.' };
  }
}

type Places = { key(text: string): ComponentChildren; billing(text: string): ComponentChildren; settings: string };

function ofLimit(limitedBy: Decision['limitedBy'], { key, billing, workspace }: Known, places: Places): Told {
  if (!limitedBy) return { why: 'A limit was reached.', change: places.key('Raise the limit.') };
  const { on, name, limit } = limitedBy;
  const lists = { key: key?.limits, workspace: workspace.defaultLimits, billing: billing?.limits };
  const one = lists[on]?.find((other) => other.name === name);
  const isRate = name === RATE_NAME;
  const window = isRate ? 'requests per second' : one && windowOf(one);
  const rateNow = on === 'workspace' ? workspace.defaultRateLimitPerSecond : key?.rateLimitPerSecond;
  const limitNow = isRate ? rateNow : one?.limit;
  const whose = { key: 'the key', workspace: "the workspace's keys", billing: 'the record' }[on];
  const raise = {
    key: places.key('raise it on the key'),
    billing: places.billing('raise it on the record'),
    workspace: <a href={places.settings}>raise it for all keys of the workspace</a>,
  }[on];
  return {
    why: (
      <>
        The limit <strong>{name}</strong> of {whose} was reached: at most {grouped(String(limit))}
        {window && ` ${window}`}.
      </>
    ),
    change: (
      <>
        {opensAgain(isRate ? { per: 'second' } : one)} Or {raise}.
      </>
    ),
    now: limitNow !== undefined && String(limitNow) !== String(limit) && `it is at most ${grouped(String(limitNow))}`,
  };
}

function opensAgain(limit: Pick<Limit, 'per' | 'timezone'> | undefined): string {
  if (!limit) return 'It lets calls pass again after a while.';
  const { per, timezone = 'UTC' } = limit;
  return ['second', 'minute', 'hour'].includes(per)
    ? `It slides: calls pass again within the ${per}.`
    : `It is whole again with the next ${per} in ${timezone}.`;
}
