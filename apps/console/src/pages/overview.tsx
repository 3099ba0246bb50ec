import { useMemo } from 'preact/hooks';
import { microsIn, textOf } from '../data/amounts.ts';
import { call, Problem } from '../data/call.ts';
import { useAnswer, useMay, useRead, useWorkspace, type ItemOf } from '../data/hooks.ts';
import { DAY_MS, DAYS, lastDays, periodOf, periodsFrom } from '../data/time.ts';
import { chartOf, StackedBars } from '../parts/chart.tsx';
import { OutcomeSums, useOutcomes } from '../parts/outcomes.tsx';
import { Page, Section } from '../parts/page.tsx';
import { Listed, Table, type Column } from '../parts/table.tsx';
import { Amount, Empty, Facts, Loaded, State, Time, UNNAMED } from '../parts/text.tsx';
import { BillingState } from './customers/credits.tsx';
import { isGivenUp, isOf, WebhookState } from './webhooks/webhooks.tsx';

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
    <Listed
      title="Customers with the least left"
      of={useAnswer('get /api/v1/workspace/{id}/customer-billings', input, STATE_MS)}
      items={({ billings }) => billings}
      columns={[
        { title: 'Meter', isMain: true, text: 'externalMeterId', link: (one) => pathOf(`customers/${one.id}`) },
        { title: 'Available', amount: 'availableCredits' },
        { title: 'State', width: '8rem', cell: (one) => <BillingState of={one} /> },
      ]}
      empty={empty}
    />
  );
}

/** The limits that refused calls in the last 24 hours, and of which keys. */
function HitLimits() {
  const { id: workspaceId, pathOf } = useWorkspace();
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
  return (
    <Listed
      title="Limits hit, last 24 hours"
      of={read}
      items={(rows) =>
        [...Map.groupBy(rows, ({ limit, apiKeyId }) => `${limit} ${apiKeyId}`)]
          .map(([id, all]) => ({ ...all[0]!, id, refused: all.reduce((sum, { count }) => sum + count, 0) }))
          .toSorted((a, b) => b.refused - a.refused)
          .slice(0, SHOWN)
      }
      columns={[
        {
          title: 'Key',
          isMain: true,
          text: ({ apiKeyId, apiKeyName = apiKeyId }) => apiKeyName,
          link: ({ apiKeyId }) => apiKeyId && pathOf(`keys/${apiKeyId}`),
        },
        { title: 'Limit', text: 'limit' },
        { title: 'Refused', amount: 'refused' },
      ]}
      empty="Nothing to do: no limit refused a call."
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
    <Listed
      title="Webhooks that fail"
      of={read}
      items={() => all.filter((one) => one.failingSince !== undefined || isGivenUp(one))}
      columns={[
        {
          title: 'Webhook',
          isMain: true,
          text: ({ description, url }) => description ?? url,
          link: (one) => pathOf(`webhooks/${one.id}`),
        },
        { title: 'State', width: '8rem', cell: (one) => <WebhookState of={one} /> },
        { title: 'Since', time: ({ enabled, failingSince, disabledAt }) => (enabled ? failingSince : disabledAt) },
      ]}
      empty={all.length > 0 ? 'Nothing to do: all get through.' : none}
    />
  );
}

/** Whether the books were proved, when, and which records differ. */
function Books() {
  const { id, pathOf } = useWorkspace();
  return (
    <Section title="Books">
      <Loaded of={useAnswer('get /api/v1/workspace/{id}/proof', { id }, STATE_MS)}>
        {({ proof: { provedAt, differentRecords, undecidedRecords, different } }) => {
          if (provedAt === undefined)
            return (
              <Empty>
                Not proved yet: each hour all records are compared with their events, for the first time within the hour
                to come. Until then a customer's own page proves its record at once.
              </Empty>
            );
          const isExact = differentRecords === 0;
          return (
            <>
              <Facts
                of={[
                  ['State', <State kind={isExact ? 'good' : 'bad'}>{isExact ? 'Exact' : 'Different'}</State>],
                  ['Records that differ', <Amount of={differentRecords} />],
                  ['Records with events on their way', <Amount of={undecidedRecords} />],
                  ['Proved', <Time at={provedAt} />],
                ]}
              />
              <Table
                label="Records that differ"
                columns={[
                  {
                    title: 'Meter',
                    isMain: true,
                    text: 'externalMeterId',
                    link: (one) => pathOf(`customers/${one.billingId}`),
                  },
                  { title: 'By', amount: 'difference' },
                  { title: 'Since', time: 'since' },
                ]}
                items={different}
                keyOf={({ billingId }) => billingId}
              />
            </>
          );
        }}
      </Loaded>
    </Section>
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
