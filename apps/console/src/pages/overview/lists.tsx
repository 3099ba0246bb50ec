import { call, Problem } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { DAY_MS } from '../../data/periods.ts';
import { useWorkspace } from '../../data/session.ts';
import { LimitName } from '../../parts/outcomes.tsx';
import { usePath } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Amount } from '../../parts/text.tsx';
import { BillingState } from '../customers/customers.tsx';
import { isOf, WebhookState, WebhookTrouble } from '../webhooks/webhooks.tsx';

type Live = { everyMs: number };

const SHOWN = 8;
// More than a record can have: the list then begins with those that have the least.
const MOST_CREDITS = '9000000000';
// "usage_too_large" of the API.
const USAGE_TOO_LARGE = 40020;
const QUARTER_MS = 900_000;

/** The customers with the least left. */
export function LowCustomers({ everyMs }: Live) {
  const { id } = useWorkspace();
  const pathOf = usePath();
  const { value, problem } = useRead(
    async (signal) => {
      const input = { id, availableBelow: MOST_CREDITS, limit: SHOWN };
      return (await call('get /api/v1/workspace/{id}/customer-billings', input, signal)).billings;
    },
    [id],
    everyMs,
  );
  return (
    <Panel title="Customers with the least left" problem={problem} isThere={value !== undefined}>
      {value?.length === 0 && <p class="muted">There is no billing record.</p>}
      {value && value.length > 0 && (
        <ul class="plain lines">
          {value.map((one) => (
            <li key={one.id}>
              <a href={pathOf(`customers/${one.id}`)}>{one.externalMeterId}</a>
              <span>
                <Amount of={one.availableCredits} /> <BillingState of={one} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** The limits that refused calls in the last 24 hours, and of which keys. */
export function HitLimits({ everyMs }: Live) {
  const { id: workspaceId } = useWorkspace();
  const pathOf = usePath();
  const { value, problem } = useRead(
    async (signal) => {
      const endMs = Math.ceil(Date.now() / QUARTER_MS) * QUARTER_MS;
      const [from, to] = [new Date(endMs - DAY_MS).toISOString(), new Date(endMs).toISOString()];
      const count = async (groupBy: string) => {
        const input = { workspaceId, from, to, interval: 'day' as const, groupBy };
        const reasons = ['RATE_LIMIT', 'LIMIT_REACHED'] as const;
        const read = reasons.map((reason) => call('get /api/v1/verifications', { ...input, reason }, signal));
        return hits((await Promise.all(read)).flatMap(({ data }) => data));
      };
      // Of very many keys the api tells no rows: then by limit alone.
      return count('limit,key').catch((error: unknown) => {
        if (error instanceof Problem && error.code === USAGE_TOO_LARGE) return count('limit');
        throw error;
      });
    },
    [workspaceId],
    everyMs,
  );
  return (
    <Panel title="Limits hit, last 24 hours" problem={problem} isThere={value !== undefined}>
      {value?.length === 0 && <p class="muted">No limit refused a call.</p>}
      {value && value.length > 0 && (
        <ul class="plain lines">
          {value.slice(0, SHOWN).map(({ limit, apiKeyId, calls }) => (
            <li key={`${limit} ${apiKeyId}`}>
              {apiKeyId ? (
                <a href={pathOf(`why?key=${apiKeyId}`)}>
                  <LimitName of={limit} />
                </a>
              ) : (
                <LimitName of={limit} />
              )}
              <span>
                <Amount of={calls} /> refused
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

type Hit = { limit: string; apiKeyId: string; calls: number };

function hits(rows: readonly { limit?: string | undefined; apiKeyId?: string | undefined; count: number }[]): Hit[] {
  const found = new Map<string, Hit>();
  for (const { limit = '', apiKeyId = '', count } of rows) {
    const hit = found.get(`${limit} ${apiKeyId}`) ?? { limit, apiKeyId, calls: 0 };
    hit.calls += count;
    found.set(`${limit} ${apiKeyId}`, hit);
  }
  return [...found.values()].toSorted((a, b) => b.calls - a.calls);
}

/** The webhooks that do not get through. */
export function FailingWebhooks({ everyMs }: Live) {
  const { id } = useWorkspace();
  const pathOf = usePath();
  const { value, problem } = useRead(
    async (signal) =>
      (await call('get /api/v1/webhook', { limit: 100 }, signal)).webhooks.filter((one) => isOf(one, id)),
    [id],
    everyMs,
  );
  const failing = value?.filter((one) => one.failingSince !== undefined || isGivenUp(one));
  return (
    <Panel title="Webhooks that fail" problem={problem} isThere={value !== undefined}>
      {value?.length === 0 && <p class="muted">There is no webhook.</p>}
      {value && value.length > 0 && failing?.length === 0 && <p class="muted">None: all get through.</p>}
      {failing && failing.length > 0 && (
        <ul class="plain">
          {failing.map((one) => (
            <li key={one.id}>
              <a href={pathOf(`webhooks/${one.id}`)}>{one.description ?? one.url}</a> <WebhookState of={one} />
              <br />
              <span class="muted">
                <WebhookTrouble of={one} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function isGivenUp({ enabled, disabledReason }: { enabled: boolean; disabledReason?: string | undefined }): boolean {
  return !enabled && disabledReason !== 'REQUESTED';
}
