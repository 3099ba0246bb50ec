import { call } from '../data/call.ts';
import { readSome, useAnswer, useAsked, useMay, useRead, useWorkspace } from '../data/hooks.ts';
import { lastDays } from '../data/time.ts';
import { Field } from '../parts/form.tsx';
import { Counts, RefusedCalls, useCounts } from './calls.tsx';
import { Page, Section } from '../parts/page.tsx';
import { Listed, Table } from '../parts/table.tsx';
import { Amount, Empty, Facts, grouped, Loaded, MakeOne, PageLink, State, Time, UNNAMED } from '../parts/text.tsx';
import { billingState } from './customers/billing-state.ts';
import { groupOptions, groups, LastUsage, sumOf } from './usage.tsx';
import { isGivenUp, isOf, webhookState } from './webhooks/webhooks.tsx';

const LIVE_MS = 10_000;
const STATE_MS = 60_000;
const SHOWN = 8;
const PAGE = 5_000;
// More than a record can have: the list then begins with those that have the least.
const MOST_CREDITS = '9000000000';
const needs = ['usage:read', 'billing:read', 'webhook:read'] as const;

/** Is all well, and what happens now? */
export function Overview() {
  const may = useMay();
  const { id: workspaceId } = useWorkspace();
  return (
    <Page title="Overview">
      {!needs.some(may) && <Empty>The token may read neither usage, nor customers, nor webhooks.</Empty>}
      <div class="panels">
        {may('billing:read') && <LowCustomers />}
        {may('usage:read') && <RefusedCalls most={SHOWN} action={<PageLink to="calls">All calls</PageLink>} />}
        {may('webhook:read') && <FailingWebhooks />}
        {may('billing:read') && <Books />}
      </div>
      {may('usage:read') && <Today />}
      {may('usage:read') && <Now />}
      {may('usage:read') && (
        <LastUsage
          title="Credits used"
          action={<PageLink to="usage">All usage</PageLink>}
          of={{ workspaceId }}
          empty="Nothing was used. Verify a key with a cost, and it shows here."
          isSum
        />
      )}
    </Page>
  );
}

function Today() {
  const { id: workspaceId, workspace } = useWorkspace();
  const [{ top }, ask] = useAsked();
  const by = groups.find(({ group }) => group === top) ?? groups[0]!;
  const { from, to } = lastDays(workspace.timezone, 2);
  const asked = { workspaceId, from, to, timezone: workspace.timezone, interval: 'day' } as const;
  const usedBy = (groupBy: string) => ({ ...asked, groupBy, limit: PAGE });
  const readFacts = async () => {
    const counting = call('get /api/v1/verifications', { ...asked, groupBy: 'status' });
    const [{ data }, used] = await Promise.all([counting, readSome('get /api/v1/usage', usedBy('usageName'))]);
    return { data, used };
  };
  const facts = useRead(readFacts, JSON.stringify(asked), STATE_MS);
  const readTop = () => readSome('get /api/v1/usage', usedBy(by.group));
  const read = useRead(readTop, JSON.stringify(usedBy(by.group)), STATE_MS);
  const chooseTop = (one: string) => ask({ top: one });
  const isOf = (day: string) => (row: { start: string }) => row.start.startsWith(day);
  return (
    <Section title="Today">
      <Loaded of={facts}>
        {({ data, used }) => {
          const callsOf = (day: string, of = data) => of.filter(isOf(day)).reduce((sum, { count }) => sum + count, 0);
          const valid = data.filter(({ status }) => status === 'VALID');
          const [calls, passed] = [callsOf(to), callsOf(to, valid)];
          const usedOn = (day: string) => sumOf(used.items.filter(isOf(day)));
          return (
            <Facts
              of={[
                ['Calls', against(calls, callsOf(from))],
                ['Passed', calls > 0 && `${((100 * passed) / calls).toFixed(1)}%`],
                ['Credits used', used.isWhole && against(usedOn(to), usedOn(from))],
              ]}
            />
          );
        }}
      </Loaded>
      <Field label="Most used by" name="top" options={groupOptions} value={by.group} onText={chooseTop} />
      <Loaded of={read}>
        {({ items: rows, isWhole }) => {
          if (!isWhole) return <Empty>There are too many to compare here: the page of all usage has them.</Empty>;
          const items = [...Map.groupBy(rows, (row) => by.text(row) || UNNAMED)].map(([id, some]) => {
            const usedOn = (day: string) => sumOf(some.filter(isOf(day)));
            return { id, row: some[0]!, today: usedOn(to), yesterday: usedOn(from) };
          });
          const largest = items.toSorted((a, b) => Number(b.today) - Number(a.today));
          return (
            <Table
              label="Most used today"
              columns={[
                { title: by.title, text: 'id', link: ({ row }) => by.text(row) && by.link?.(row) },
                { title: 'Today', amount: 'today' },
                { title: 'Yesterday', amount: 'yesterday' },
              ]}
              items={largest.slice(0, SHOWN)}
              empty="Nothing was used today or yesterday."
            />
          );
        }}
      </Loaded>
    </Section>
  );
}

const against = (today: number | string, before: number | string) =>
  `${grouped(String(today))}, yesterday ${grouped(String(before))}`;

function Now() {
  const { id: workspaceId } = useWorkspace();
  const read = useCounts({ workspaceId, groupBy: 'status' }, 'hour', LIVE_MS);
  return (
    <Section title="Calls per minute, last hour" of={read}>
      {({ counts, chart }) => (
        <div class="panels">
          <Counts counts={{ ...counts, wouldRefuse: [] }} chart={chart} />
        </div>
      )}
    </Section>
  );
}

function LowCustomers() {
  const { id } = useWorkspace();
  const input = { id, availableBelow: MOST_CREDITS, limit: SHOWN };
  return (
    <Listed
      title="Customers with the least left"
      of={useAnswer('get /api/v1/workspace/{id}/customer-billings', input, STATE_MS)}
      items={({ billings }) => billings}
      columns={[
        { title: 'Customer', text: 'externalMeterId', link: (one) => `customers/${one.id}` },
        { title: 'Available', amount: 'availableCredits' },
        { title: 'State', width: '8.5rem', state: billingState },
      ]}
      empty={<MakeOne what="customer" page="customers" why="who pays by use" />}
    />
  );
}

function FailingWebhooks() {
  const { id } = useWorkspace();
  const read = useAnswer('get /api/v1/webhook', { limit: 100 }, STATE_MS);
  const all = read.value?.webhooks.filter((one) => isOf(one, id)) ?? [];
  const none = <MakeOne what="webhook" page="webhooks" why="to be told of what happens" />;
  return (
    <Listed
      title="Webhooks that fail"
      of={read}
      items={() => all.filter((one) => one.failingSince !== undefined || isGivenUp(one))}
      columns={[
        { title: 'Webhook', text: ({ description, url }) => description ?? url, link: (one) => `webhooks/${one.id}` },
        { title: 'State', width: '8rem', state: webhookState },
        { title: 'Since', time: ({ enabled, failingSince, disabledAt }) => (enabled ? failingSince : disabledAt) },
      ]}
      empty={all.length > 0 ? 'Nothing to do: all get through.' : none}
    />
  );
}

const UNPROVED =
  "Not proved yet: each hour the balance of every customer is compared with its events, for the first time within the hour to come. Until then a customer's own page proves it at once.";

function Books() {
  const { id } = useWorkspace();
  return (
    <Section title="Books" of={useAnswer('get /api/v1/workspace/{id}/proof', { id }, STATE_MS)}>
      {({ proof: { provedAt, differentRecords, undecidedRecords, different } }) => {
        if (provedAt === undefined) return <Empty>{UNPROVED}</Empty>;
        return (
          <>
            <Facts
              of={[
                ['State', <State of={differentRecords === 0 ? ['good', 'Exact'] : ['bad', 'Different']} />],
                ['Customers that differ', <Amount of={differentRecords} />],
                ['Customers with events on their way', <Amount of={undecidedRecords} />],
                ['Proved', <Time at={provedAt} />],
              ]}
            />
            <Table
              label="Customers that differ"
              columns={[
                { title: 'Customer', text: 'externalMeterId', link: (one) => `customers/${one.billingId}` },
                { title: 'By', amount: 'difference' },
                { title: 'Since', time: 'since' },
              ]}
              items={different}
            />
          </>
        );
      }}
    </Section>
  );
}
