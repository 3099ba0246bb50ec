import type { ComponentChildren } from 'preact';
import { call, Problem, type Output } from '../../data/call.ts';
import { useAnswer, useRead } from '../../data/hooks.ts';
import type { Count } from '../../data/outcomes.ts';
import { useWorkspace } from '../../data/session.ts';
import { Panel } from '../../parts/loaded.tsx';
import { usePath } from '../../parts/page.tsx';
import { Amount, State, Time } from '../../parts/text.tsx';
import { BillingState } from '../customers/credits.tsx';
import { isOf, WebhookState, WebhookTrouble } from '../webhooks/webhooks.tsx';
import { hitLimits, lowCustomers, proofOf, SHOWN, webhooks } from './questions.ts';

type Live = { everyMs: number };
type Proof = Output<'get /api/v1/workspace/{id}/proof'>['proof'];
type LinesProps<Item> = {
  items: readonly Item[];
  empty: ComponentChildren;
  keyOf(item: Item): string;
  children(item: Item): ComponentChildren;
};

/** Some of a list, each in a line. */
function Lines<Item>({ items, empty, keyOf, children }: LinesProps<Item>) {
  if (items.length === 0) return <p class="muted">{empty}</p>;
  return (
    <ul class="plain lines">
      {items.map((one) => (
        <li key={keyOf(one)}>{children(one)}</li>
      ))}
    </ul>
  );
}

/** The name of something that has a page of its own. */
function Named({ to, children }: { to: string; children: string }) {
  return (
    <a href={usePath()(to)} title={children}>
      {children}
    </a>
  );
}

// "usage_too_large" of the API.
const USAGE_TOO_LARGE = 40020;

/** The customers with the least left. */
export function LowCustomers({ everyMs }: Live) {
  const { id } = useWorkspace();
  const pathOf = usePath();
  const empty = (
    <>
      There is no billing record. <a href={pathOf('customers')}>Make one</a> for a customer who pays by use.
    </>
  );
  return (
    <Panel title="Customers with the least left" of={useAnswer(...lowCustomers(id), everyMs)}>
      {({ billings }) => (
        <Lines items={billings} empty={empty} keyOf={(one) => one.id}>
          {(one) => (
            <>
              <Named to={`customers/${one.id}`}>{one.externalMeterId}</Named>
              <Amount of={one.availableCredits} />
              <BillingState of={one} />
            </>
          )}
        </Lines>
      )}
    </Panel>
  );
}

/** The limits that refused calls in the last 24 hours, and of which keys. */
export function HitLimits({ everyMs }: Live) {
  const { id: workspaceId } = useWorkspace();
  const read = useRead(
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
    workspaceId,
    everyMs,
  );
  return (
    <Panel title="Limits hit, last 24 hours" of={read}>
      {(all) => (
        <Lines
          items={all}
          empty="Nothing to do: no limit refused a call."
          keyOf={({ limit, apiKeyId }) => `${limit} ${apiKeyId}`}
        >
          {({ limit, apiKeyId, keyName, calls }) => (
            <>
              <span>
                {apiKeyId && <Named to={`why?key=${apiKeyId}`}>{keyName}</Named>}{' '}
                <span class="muted" title={limit}>
                  {limit}
                </span>
              </span>
              <span class="count">
                <Amount of={calls} /> refused
              </span>
            </>
          )}
        </Lines>
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
  const none = (
    <>
      There is no webhook. <a href={pathOf('webhooks')}>Make one</a> to be told of what happens.
    </>
  );
  return (
    <Panel title="Webhooks that fail" of={useAnswer(...webhooks(), everyMs)}>
      {({ webhooks: ofTeam }) => {
        const all = ofTeam.filter((one) => isOf(one, id));
        const failing = all.filter((one) => one.failingSince !== undefined || isGivenUp(one));
        return (
          <Lines
            items={failing}
            empty={all.length > 0 ? 'Nothing to do: all get through.' : none}
            keyOf={(one) => one.id}
          >
            {(one) => (
              <>
                <Named to={`webhooks/${one.id}`}>{one.description ?? one.url}</Named>
                <WebhookState of={one} />
                <span class="muted whole">
                  <WebhookTrouble of={one} />
                </span>
              </>
            )}
          </Lines>
        );
      }}
    </Panel>
  );
}

function isGivenUp({ enabled, disabledReason }: { enabled: boolean; disabledReason?: string | undefined }): boolean {
  return !enabled && disabledReason !== 'REQUESTED';
}

/** Whether the books were proved, when, and which records differ. */
export function Books({ everyMs }: Live) {
  const { id } = useWorkspace();
  return (
    <Panel title="Books" of={useAnswer(...proofOf(id), everyMs)}>
      {(answer) => <Proved of={answer.proof} />}
    </Panel>
  );
}

function Proved({ of: { provedAt, differentRecords, undecidedRecords, different } }: { of: Proof }) {
  const pathOf = usePath();
  if (provedAt === undefined)
    return (
      <p class="muted">
        Not proved yet: each hour all records are compared with their events, for the first time within the hour to
        come. Until then a customer's own page proves its record at once.
      </p>
    );
  return (
    <>
      <p>
        {differentRecords === 0 ? (
          <State kind="good">Exact</State>
        ) : (
          <State kind="bad">
            <Amount of={differentRecords} /> {differentRecords === 1 ? 'record differs' : 'records differ'}
          </State>
        )}
      </p>
      {different.length > 0 && (
        <ul class="plain">
          {different.map(({ billingId, externalMeterId, difference, since }) => (
            <li key={billingId}>
              <a href={pathOf(`customers/${billingId}`)}>{externalMeterId}</a> by <Amount of={difference} />, since{' '}
              <Time at={since} />
            </li>
          ))}
        </ul>
      )}
      <p class="muted">
        Proved <Time at={provedAt} />
        {undecidedRecords > 0 && (
          <>
            ; of <Amount of={undecidedRecords} /> {undecidedRecords === 1 ? 'record' : 'records'} events were on their
            way
          </>
        )}
        .
      </p>
    </>
  );
}
