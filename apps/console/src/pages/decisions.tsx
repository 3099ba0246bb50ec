import { useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { explained } from '../../../../shared/contract/reasons.ts';
import { call, type Input, type Output } from '../data/call.ts';
import { useAnswer, useMay, useRead, useWorkspace, type Read, type Workspace } from '../data/hooks.ts';
import { periodOf, spans, spanUntilNow, type Span } from '../data/time.ts';
import { chartOf, StackedBars, type Chart } from '../parts/chart.tsx';
import { Field } from '../parts/form.tsx';
import { windowOf } from '../parts/limits.tsx';
import { Section } from '../parts/page.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Amount, Facts, grouped, Loaded, PageLink, State, Time, type Standing } from '../parts/text.tsx';
import type { Billing } from './customers/credits.tsx';
import type { ApiKey } from './keys/keys.tsx';

type Answer = Output<'get /api/v1/verifications'>;
type Count = Omit<Answer['data'][number], 'status' | 'reason'> & { status?: Status | undefined; reason?: string };
type Status = NonNullable<Answer['data'][number]['status']>;
type Decision = Output<'get /api/v1/verifications/recent'>['data'][number];
/** Whose decisions: a key's, or those of all keys of a meter. */
type Of = Input<'get /api/v1/verifications/recent'>;
type Asked = Pick<Input<'get /api/v1/verifications'>, 'apiKeyId' | 'externalMeterId'> & {
  workspaceId: string;
  groupBy: string;
};

// Each status keeps its colour, whichever others there are; what passed stands at the foot.
const colours: Record<Status, number> = {
  VALID: 2,
  DISABLED: 6,
  EXPIRED: 7,
  DELETED: 0,
  INVALID: 5,
  INVALID_SCOPES: 3,
  RATE_LIMITED: 1,
  USAGE_LIMITED: 4,
};

type Counted = { counts: Pick<Answer, 'data' | 'wouldRefuse'>; chart: Chart };

/** Counts decisions since a while ago; with `everyMs`, again and again. */
export function useCounts(filters: Asked, span: Span, everyMs?: number): Read<Counted> {
  return useRead(
    async () => {
      const { asked, labels } = spanUntilNow(span);
      const counts = await call('get /api/v1/verifications', { ...filters, ...asked });
      const rows = counts.data.map((row) => {
        return [periodOf(row.start, asked.interval), row.status ?? '', row.count] as const;
      });
      return { counts, chart: chartOf(rows, labels, colours) };
    },
    JSON.stringify([filters, span]),
    everyMs,
  );
}

/** What calls were answered over time. */
function Outcomes({ of }: { of: Of }) {
  const { id: workspaceId } = useWorkspace();
  const [span, setSpan] = useState<Span>('day');
  return (
    <Section title="Outcomes">
      <Field label="Time" name="span" options={spans} value={span} onText={(one) => setSpan(one as Span)} />
      <Loaded of={useCounts({ ...of, workspaceId, groupBy: 'status,reason,limit' }, span)}>
        {(counted) => <Counts {...counted} />}
      </Loaded>
    </Section>
  );
}

/** What a call was answered; nothing where a limit only watched it. */
function answerOf({ status }: { status?: string | undefined }): Standing {
  return status === undefined ? ['idle', 'would be refused'] : [status === 'VALID' ? 'good' : 'bad', status];
}

const columns: readonly Column<Decision>[] = [
  { title: 'When', width: '12.5rem', time: 'time' },
  { title: 'Answer', state: answerOf },
  { title: 'Reason', text: 'reason' },
  { title: 'Limit', text: ({ limitedBy }) => limitedBy && `${limitedBy.on}/${limitedBy.name}` },
  { title: 'Route', text: 'route' },
  { title: 'Address', text: 'clientAddress' },
];
const keyColumn: Column<Decision> = { title: 'Key', text: 'apiKeyId', link: (one) => `keys/${one.apiKeyId}` };

/** How many calls had which answer, the most frequent first; and those that a limit which only watches would refuse. */
export function Counts({ counts: { data, wouldRefuse }, chart }: Counted) {
  // Of a limit that only watches it is one line, whatever the call was answered.
  const watched = wouldRefuse.map((one): Count => ({ ...one, status: undefined, reason: 'only watched' }));
  const nameOf = ({ status, reason, limit }: Count) => `${status} ${reason} ${limit}`;
  const items = [...summed(data, nameOf), ...summed(watched, nameOf)];
  const needs = items.some(({ reason }) => reason) ? undefined : false;
  return (
    <>
      {data.length > 0 && <StackedBars {...chart} />}
      <Table
        label="Calls by answer"
        columns={[
          { title: 'Answer', state: (one) => answerOf(one) },
          { title: 'Reason', text: 'reason', needs },
          { title: 'Limit', text: 'limit', needs },
          { title: 'Calls', width: '7rem', amount: 'count' },
        ]}
        items={items}
        empty="No call in this time. Counts show here about two seconds after a call."
      />
    </>
  );
}

/** Rows by what names them, each with the sum of their counts, the largest first. */
export function summed<Row extends { count: number }>(rows: readonly Row[], nameOf: (row: Row) => string): Row[] {
  const sums = [...Map.groupBy(rows, nameOf).values()].map((all) => {
    return { ...all[0]!, count: all.reduce((sum, { count }) => sum + count, 0) };
  });
  return sums.toSorted((a, b) => b.count - a.count);
}

type Known = { key: ApiKey | undefined; billing: Billing | undefined; workspace: Workspace };
// The limit that is a number of its own, beside the list of limits.
const RATE_NAME = 'rateLimitPerSecond';

/** How the calls of a key or of the keys of a record were decided, the last of them, and why the last that was refused was. */
export function Decided({ of, bid }: { of: Of; bid: string | undefined }) {
  return (
    <>
      <Outcomes of={of} />
      <Section title="Recent decisions" of={useAnswer('get /api/v1/verifications/recent', of)}>
        {({ data }) => {
          const refused = data.find(({ status }) => status !== 'VALID');
          return (
            <>
              {refused && <Verdict of={refused} bid={bid} />}
              <Table
                label="Recent decisions"
                columns={of.apiKeyId ? columns : [...columns, keyColumn]}
                items={data}
                empty="No call in the last 24 hours. A decision shows here about two seconds after it was made."
              />
              <p class="muted">The last 100 decisions of 24 hours, and of refusals at most ten a second of a key.</p>
            </>
          );
        }}
      </Section>
    </>
  );
}

function Verdict({
  of: { reason, limitedBy, apiKeyId: akid, ...decision },
  bid,
}: {
  of: Decision;
  bid: string | undefined;
}) {
  const { id, workspace } = useWorkspace();
  const may = useMay();
  const ofKey = may('key:read') ? { id, akid } : undefined;
  const key = useAnswer('get /api/v1/workspace/{id}/api-key/{akid}', ofKey).value?.apiKey;
  const ofRecord = bid && may('billing:read') ? { bid } : undefined;
  const billing = useAnswer('get /api/v1/customer-billing/{bid}', ofRecord).value?.billing;
  const why = reason && explained(reason);
  const at = limitedBy?.on ?? why?.at;
  const links: Record<NonNullable<typeof at>, ComponentChildren> = {
    key: <PageLink to={`keys/${akid}`}>The key</PageLink>,
    billing: <PageLink to={`customers/${bid}`}>The record</PageLink>,
    workspace: <PageLink to="settings">The defaults of the workspace</PageLink>,
    records: <PageLink to="customers">The records</PageLink>,
  };
  const record = billing ?? (key && !key.billingId ? 'none' : undefined);
  const stillSo = why?.stillSo?.({ key, record, nowMs: Date.now() });
  return (
    <section class="problem" aria-label="The last refusal">
      <Facts
        of={[
          ['Last refused', <Time at={decision.time} />],
          ['Answer', <State of={answerOf(decision)} />],
          ['Why', why?.means ?? 'The call was refused.'],
          ...(limitedBy ? limitFacts(limitedBy, { key, billing, workspace }) : []),
          ['What would change it', why?.change],
          ['Where', at && (at !== 'billing' || bid) && links[at]],
          ['Available by now', at === 'billing' && !limitedBy && billing && <Amount of={billing.availableCredits} />],
          ['Now', stillSo === undefined ? undefined : stillSo ? 'It is still so.' : 'It is so no longer.'],
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
