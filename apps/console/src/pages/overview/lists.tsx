import { call, Problem } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import type { Count } from '../../data/outcomes.ts';
import { useWorkspace } from '../../data/session.ts';
import { LimitName } from '../../parts/outcomes.tsx';
import { usePath } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Amount } from '../../parts/text.tsx';
import { BillingState } from '../customers/credits.tsx';
import { isOf, WebhookState, WebhookTrouble } from '../webhooks/webhooks.tsx';
import { hitLimits, lowCustomers, SHOWN, webhooks } from './questions.ts';

type Live = { everyMs: number };

// "usage_too_large" of the API.
const USAGE_TOO_LARGE = 40020;

/** The customers with the least left. */
export function LowCustomers({ everyMs }: Live) {
  const { id } = useWorkspace();
  const pathOf = usePath();
  const { value, problem } = useRead(
    async (signal) => (await call(...lowCustomers(id), signal)).billings,
    [id],
    everyMs,
  );
  return (
    <Panel title="Customers with the least left" problem={problem} isThere={value !== undefined}>
      {value?.length === 0 && (
        <p class="muted">
          There is no billing record. <a href={pathOf('customers')}>Make one</a> for a customer who pays by use.
        </p>
      )}
      {value && value.length > 0 && (
        <ul class="plain lines">
          {value.map((one) => (
            <li key={one.id}>
              <a href={pathOf(`customers/${one.id}`)} title={one.externalMeterId}>
                {one.externalMeterId}
              </a>
              <Amount of={one.availableCredits} />
              <BillingState of={one} />
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
      const count = async (groupBy: 'limit' | 'limit,key') => {
        const read = hitLimits(workspaceId, groupBy).map((question) => call(...question, signal));
        return hits((await Promise.all(read)).flatMap(({ data }) => data)).slice(0, SHOWN);
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
      {value?.length === 0 && <p class="muted">Nothing to do: no limit refused a call.</p>}
      {value && value.length > 0 && (
        <ul class="plain lines">
          {value.map(({ limit, apiKeyId, keyName, calls }) => (
            <li key={`${limit} ${apiKeyId}`}>
              <span>
                {apiKeyId && (
                  <>
                    <a href={pathOf(`why?key=${apiKeyId}`)} title={keyName}>
                      {keyName}
                    </a>{' '}
                  </>
                )}
                <span class="muted">
                  <LimitName of={limit} />
                </span>
              </span>
              <span class="count">
                <Amount of={calls} /> refused
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

type Hit = { limit: string; apiKeyId: string; keyName: string; calls: number };

function hits(rows: readonly Count[]): Hit[] {
  const found = new Map<string, Hit>();
  for (const { limit = '', apiKeyId = '', apiKeyName = apiKeyId, count } of rows) {
    const hit = found.get(`${limit} ${apiKeyId}`) ?? { limit, apiKeyId, keyName: apiKeyName, calls: 0 };
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
    async (signal) => (await call(...webhooks(), signal)).webhooks.filter((one) => isOf(one, id)),
    [id],
    everyMs,
  );
  const failing = value?.filter((one) => one.failingSince !== undefined || isGivenUp(one));
  return (
    <Panel title="Webhooks that fail" problem={problem} isThere={value !== undefined}>
      {value?.length === 0 && (
        <p class="muted">
          There is no webhook. <a href={pathOf('webhooks')}>Make one</a> to be told of what happens.
        </p>
      )}
      {value && value.length > 0 && failing?.length === 0 && <p class="muted">Nothing to do: all get through.</p>}
      {failing && failing.length > 0 && (
        <ul class="plain lines">
          {failing.map((one) => (
            <li key={one.id}>
              <a href={pathOf(`webhooks/${one.id}`)} title={one.description ?? one.url}>
                {one.description ?? one.url}
              </a>
              <WebhookState of={one} />
              <span class="muted whole">
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
