import { useMemo } from 'preact/hooks';
import { microsIn, textOf } from '../data/amounts.ts';
import { call, Problem } from '../data/call.ts';
import { useAnswer, useMay, useRead, useWorkspace, type ItemOf } from '../data/hooks.ts';
import { DAY_MS, DAYS, lastDays, periodOf, periodsFrom } from '../data/time.ts';
import { chartOf, StackedBars } from '../parts/chart.tsx';
import { OutcomeSums, useOutcomes, type Count } from '../parts/outcomes.tsx';
import { Page, Panel, Section } from '../parts/page.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Amount, Empty, Loaded, State, Time, UNNAMED } from '../parts/text.tsx';
import { BillingState } from './customers/credits.tsx';
import { isGivenUp, isOf, WebhookState, WebhookTrouble } from './webhooks/webhooks.tsx';

const LIVE_MS = 10_000;
const STATE_MS = 60_000;
const QUARTER_MS = 900_000;
const SHOWN = 8;
// More than a record can have: the list then begins with those that have the least.
const MOST_CREDITS = '9000000000';
// "usage_too_large" of the API.
const USAGE_TOO_LARGE = 40020;
const needs = ['usage:read', 'billing:read', 'webhook:read'] as const;

type Row = ItemOf<'get /api/v1/usage'>;
type Sum = { name: string; micros: bigint; events: number };

const columns: readonly Column<Sum>[] = [
  { title: 'Usage', text: 'name', isMain: true },
  { title: 'Credits', amount: ({ micros }) => textOf(micros) },
  { title: 'Events', amount: 'events', isExtra: true },
];

/** Is all well, and what happens now? */
export function Overview() {
  const may = useMay();
  return (
    <Page title="Overview">
      {!needs.some(may) && <Empty>The token may read neither usage, nor customers, nor webhooks.</Empty>}
      {may('usage:read') && <Now />}
      <div class="panels">
        {may('billing:read') && <LowCustomers />}
        {may('usage:read') && <HitLimits />}
        {may('webhook:read') && <FailingWebhooks />}
        {may('billing:read') && <Books />}
      </div>
      {may('usage:read') && <LastUsage />}
    </Page>
  );
}

function Now() {
  const { id: workspaceId } = useWorkspace();
  return (
    <Section title="Verifications per minute, last hour">
      <Loaded of={useOutcomes({ workspaceId, groupBy: 'status' }, 'hour', LIVE_MS)}>
        {({ counts: { data }, chart }) => (
          <div class="panels">
            {data.length > 0 && <StackedBars {...chart} />}
            <OutcomeSums data={data} />
          </div>
        )}
      </Loaded>
    </Section>
  );
}

/** The name of something that has a page of its own. */
function Named({ to, children }: { to: string; children: string }) {
  return (
    <a href={useWorkspace().pathOf(to)} title={children}>
      {children}
    </a>
  );
}

/** The customers with the least left. */
function LowCustomers() {
  const { id, pathOf } = useWorkspace();
  const input = { id, availableBelow: MOST_CREDITS, limit: SHOWN };
  const empty = (
    <>
      There is no billing record. <a href={pathOf('customers')}>Make one</a> for a customer who pays by use.
    </>
  );
  return (
    <Panel
      title="Customers with the least left"
      of={useAnswer('get /api/v1/workspace/{id}/customer-billings', input, STATE_MS)}
      empty={empty}
      lines={({ billings }) =>
        billings.map((one) => (
          <li key={one.id}>
            <Named to={`customers/${one.id}`}>{one.externalMeterId}</Named>
            <Amount of={one.availableCredits} />
            <BillingState of={one} />
          </li>
        ))
      }
    />
  );
}

/** The limits that refused calls in the last 24 hours, and of which keys. */
function HitLimits() {
  const { id: workspaceId } = useWorkspace();
  const read = useRead(
    async (signal) => {
      const endMs = Math.ceil(Date.now() / QUARTER_MS) * QUARTER_MS;
      const [from, to] = [new Date(endMs - DAY_MS).toISOString(), new Date(endMs).toISOString()];
      const count = async (groupBy: string) => {
        const input = { workspaceId, from, to, interval: 'day', groupBy } as const;
        const ask = (reason: 'RATE_LIMIT' | 'LIMIT_REACHED') =>
          call('get /api/v1/verifications', { ...input, reason }, signal);
        const answers = await Promise.all([ask('RATE_LIMIT'), ask('LIMIT_REACHED')]);
        return answers.flatMap(({ data }) => data);
      };
      // Of very many keys the api tells no rows: then by limit alone.
      return count('limit,key').catch((error: unknown) => {
        if (error instanceof Problem && error.code === USAGE_TOO_LARGE) return count('limit');
        throw error;
      });
    },
    workspaceId,
    STATE_MS,
  );
  const callsOf = (rows: readonly Count[]) => rows.reduce((sum, { count }) => sum + count, 0);
  return (
    <Panel
      title="Limits hit, last 24 hours"
      of={read}
      empty="Nothing to do: no limit refused a call."
      lines={(rows) =>
        [...Map.groupBy(rows, ({ limit, apiKeyId }) => `${limit} ${apiKeyId}`)]
          .toSorted(([, a], [, b]) => callsOf(b) - callsOf(a))
          .slice(0, SHOWN)
          .map(([name, all]) => {
            const { limit, apiKeyId, apiKeyName = apiKeyId } = all[0]!;
            return (
              <li key={name}>
                <span>
                  {apiKeyName && <Named to={`keys/${apiKeyId}`}>{apiKeyName}</Named>}{' '}
                  <span class="muted" title={limit}>
                    {limit}
                  </span>
                </span>
                <span class="count">
                  <Amount of={callsOf(all)} /> refused
                </span>
              </li>
            );
          })
      }
    />
  );
}

/** The webhooks that do not get through. */
function FailingWebhooks() {
  const { id, pathOf } = useWorkspace();
  const read = useAnswer('get /api/v1/webhook', { limit: 100 }, STATE_MS);
  const all = read.value?.webhooks.filter((one) => isOf(one, id)) ?? [];
  const none = (
    <>
      There is no webhook. <a href={pathOf('webhooks')}>Make one</a> to be told of what happens.
    </>
  );
  return (
    <Panel
      title="Webhooks that fail"
      of={read}
      empty={all.length > 0 ? 'Nothing to do: all get through.' : none}
      lines={() =>
        all
          .filter((one) => one.failingSince !== undefined || isGivenUp(one))
          .map((one) => (
            <li key={one.id}>
              <Named to={`webhooks/${one.id}`}>{one.description ?? one.url}</Named>
              <WebhookState of={one} />
              <span class="muted whole">
                <WebhookTrouble of={one} />
              </span>
            </li>
          ))
      }
    />
  );
}

const many = (count: number, text = 'record', texts = 'records') => (
  <>
    <Amount of={count} /> {count === 1 ? text : texts}
  </>
);

/** Whether the books were proved, when, and which records differ. */
function Books() {
  const { id, pathOf } = useWorkspace();
  return (
    <Panel
      title="Books"
      of={useAnswer('get /api/v1/workspace/{id}/proof', { id }, STATE_MS)}
      empty="Not proved yet: each hour all records are compared with their events, for the first time within the hour to
        come. Until then a customer's own page proves its record at once."
      lines={({ proof: { provedAt, differentRecords, undecidedRecords, different } }) => {
        if (provedAt === undefined) return [];
        const differs = <State kind="bad">{many(differentRecords, 'record differs', 'records differ')}</State>;
        return [
          <li key="state">{differentRecords === 0 ? <State kind="good">Exact</State> : differs}</li>,
          ...different.map(({ billingId, externalMeterId, difference, since }) => (
            <li key={billingId}>
              <span class="whole">
                <a href={pathOf(`customers/${billingId}`)}>{externalMeterId}</a> by <Amount of={difference} />, since{' '}
                <Time at={since} />
              </span>
            </li>
          )),
          <li key="when" class="muted">
            <span class="whole">
              Proved <Time at={provedAt} />
              {undecidedRecords > 0 && <>; of {many(undecidedRecords)} events were on their way</>}.
            </span>
          </li>,
        ];
      }}
    />
  );
}

function LastUsage() {
  const { id: workspaceId, pathOf } = useWorkspace();
  const days = useMemo(() => lastDays(), []);
  const asked = { workspaceId, ...days, groupBy: 'usageName', limit: 10_000 };
  return (
    <Section title={`Credits used, last ${DAYS} days`} action={<a href={pathOf('usage')}>All usage</a>}>
      <Loaded of={useAnswer('get /api/v1/usage', asked)}>
        {({ data, nextCursor }) => {
          if (nextCursor !== undefined)
            return <Empty>There are more usage names than one chart can show: the page of all usage has them.</Empty>;
          if (data.length === 0) return <Empty>Nothing was used. Verify a key with a cost, and it shows here.</Empty>;
          const rows = data.map((row) => [periodOf(row.start), nameOf(row), Number(row.totalBillingUsage)] as const);
          return (
            <>
              <StackedBars {...chartOf(rows, periodsFrom(days.from, days.to))} />
              <Table label="Credits used by usage" columns={columns} items={sumsOf(data)} />
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}

function sumsOf(rows: readonly Row[]): Sum[] {
  const sums = [...Map.groupBy(rows, nameOf)].map(([name, all]) => ({
    name,
    micros: all.reduce((sum, { totalBillingUsage }) => sum + microsIn(totalBillingUsage), 0n),
    events: all.reduce((sum, { events }) => sum + events, 0),
  }));
  return sums.toSorted((a, b) => Number(b.micros - a.micros));
}

function nameOf({ usageName }: Row): string {
  return usageName || UNNAMED;
}
