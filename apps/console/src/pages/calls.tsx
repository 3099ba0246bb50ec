import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { explained, reasons, type Reason } from '../../../../shared/contract/reasons.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { call, Problem, type Input, type Output } from '../data/call.ts';
import { useAnswer, useAsked, useMay, useRead, useSession, useWorkspace } from '../data/hooks.ts';
import type { Read, Workspace } from '../data/hooks.ts';
import { joined, periodOf, spans, spanUntilNow, type Span } from '../data/time.ts';
import { chartOf, StackedBars, type Chart } from '../parts/chart.tsx';
import { Dialog, Opens } from '../parts/dialog.tsx';
import { Field, Finder, Form } from '../parts/form.tsx';
import { windowOf } from '../parts/limits.tsx';
import { Page, Section } from '../parts/page.tsx';
import { Listed, Table, type Column } from '../parts/table.tsx';
import { Amount, Facts, grouped, Loaded, PageLink, State, Time, type Standing } from '../parts/text.tsx';
import { microsIn, type Billing } from './customers/billing-state.ts';
import type { ApiKey } from './keys/api-key.ts';

type Answer = Output<'get /api/v1/verifications'>;
type Count = Answer['data'][number];
type Status = NonNullable<Count['status']>;
type Recent = Output<'get /api/v1/verifications/recent'>['data'][number];
/** Whose calls: a key's, or those of all keys of a meter or of the workspace; and which. */
type Of = Input<'get /api/v1/verifications/recent'>;
type Counting = Input<'get /api/v1/verifications'>;

// What the api calls results and reasons, in the words of people; its own show on hover. Each result keeps its colour in charts,
// whichever others there are; what passed stands at the foot.
const results: Record<Status, readonly [word: string, colour: number]> = {
  VALID: ['Valid', 2],
  DISABLED: ['Disabled key', 6],
  EXPIRED: ['Expired key', 7],
  DELETED: ['Deleted key', 0],
  INVALID: ['Invalid', 5],
  INVALID_SCOPES: ['Missing scope', 3],
  RATE_LIMITED: ['Over a limit', 1],
  USAGE_LIMITED: ['Out of credits', 4],
};
const words: Record<Reason, string> = {
  DISABLED: 'Disabled key',
  EXPIRED: 'Expired key',
  DELETED: 'Deleted key',
  MALFORMED: 'Not a key',
  NOT_FOUND: 'Unknown key',
  NO_KEY: 'No key sent',
  TWO_KEYS: 'Two keys sent',
  IP_NOT_ALLOWED: 'Address not allowed',
  SCOPE_MISSING: 'Missing scope',
  RATE_LIMIT: 'Over a limit on requests',
  LIMIT_REACHED: 'Over a limit on credits',
  CREDITS_USED_UP: 'Out of credits',
  SPEND_CAP_REACHED: 'Spend cap reached',
  NO_BILLING_RECORD: 'No customer to bill',
};
const wordsOfResults = Object.entries(results).map(([status, [word]]) => [status, word] as const);
const resultOptions = [['', 'refused'], ['all', 'every result'], ...wordsOfResults] as const;
// What named no key is of no workspace, and not among its calls.
const ofNoKey = ['MALFORMED', 'NOT_FOUND', 'NO_KEY', 'TWO_KEYS'];
const ofKeys = Object.entries(words).filter(([reason]) => !ofNoKey.includes(reason));
const reasonOptions = [['', 'every reason'], ...ofKeys] as const;

type Counted = { counts: Pick<Answer, 'data' | 'wouldRefuse'>; chart: Chart };

/** Counts calls by result since a while ago; with `everyMs`, again and again. */
export function useCounts(filters: Counting, span: Span, everyMs?: number): Read<Counted> {
  const count = async () => {
    const { asked, labels } = spanUntilNow(span);
    const counts = await call('get /api/v1/verifications', { ...filters, ...asked });
    const amountOf = ({ start, status, count }: Count) => [periodOf(start, asked.interval), status!, count] as const;
    return { counts, chart: chartOf(counts.data.map(amountOf), labels, results) };
  };
  return useRead(count, JSON.stringify([filters, span]), everyMs);
}

/** The result of a call; where a limit only logged it, what it would have been. */
export function resultOf({ status, reason }: Pick<Count, 'status' | 'reason'>): Standing {
  if (status === undefined) return ['idle', 'Would be refused: logged only'];
  if (reason === undefined) return [status === 'VALID' ? 'good' : 'bad', results[status][0], status];
  return ['bad', words[reason], `${status}, ${reason}: ${reasons[reason].means}`];
}

const columns: readonly Column<Recent>[] = [
  { title: 'When', width: '11rem', time: 'time' },
  {
    title: 'Result',
    width: '14rem',
    cell: (one) => (
      <Opens text={resultOf(one)[1]} look="link" title={resultOf(one)[2]}>
        <Dialog title={resultOf(one)[1]}>
          <Decision of={one} />
        </Dialog>
      </Opens>
    ),
  },
  { title: 'Limit', text: ({ limitedBy }) => limitedBy && limitWords(`${limitedBy.on}/${limitedBy.name}`) },
  { title: 'Route', text: 'route' },
  { title: 'Credits', width: '7rem', amount: 'billingUsage' },
];
const keyColumn: Column<Recent> = { title: 'Key', text: 'apiKeyId', link: (one) => `keys/${one.apiKeyId}` };

// A limit by its name and place, as the api tells it: `billing/daily`.
function limitWords(limit: string | undefined): string | undefined {
  const [on = '', name] = limit?.split('/') ?? [];
  return name && `${name === RATE_NAME ? 'requests per second' : name} of the ${on === 'billing' ? 'customer' : on}`;
}

/** How many calls had which result, the most frequent first; and those that a limit which only logs would refuse. */
export function Counts({ counts: { data, wouldRefuse }, chart }: Counted) {
  // Of a limit that only logs it is one line, whatever the result.
  const logged = wouldRefuse.map(({ start, limit = '', count }): Count => ({ start, limit, count }));
  const nameOf = ({ status, reason, limit }: Count) => `${status} ${reason} ${limit}`;
  const items = [...summed(data, nameOf), ...summed(logged, nameOf)];
  const needs = items.some(({ limit }) => limit) ? undefined : false;
  return (
    <>
      {data.length > 0 && <StackedBars {...chart} />}
      <Table
        label="Calls by result"
        columns={[
          { title: 'Result', state: (one: Count) => resultOf(one) },
          { title: 'Limit', text: ({ limit }) => limitWords(limit), needs },
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

// "usage_too_large" of the API.
const USAGE_TOO_LARGE = 40020;

/** Counts calls of the last 24 hours; undefined of so many keys that the api tells no rows. */
async function countOfDay(groupBy: string, of: Counting): Promise<readonly Count[] | undefined> {
  const input = { ...of, ...spanUntilNow('day').asked, interval: 'day', groupBy } as const;
  try {
    return (await call('get /api/v1/verifications', input)).data;
  } catch (error) {
    if (error instanceof Problem && error.code === USAGE_TOO_LARGE) return undefined;
    throw error;
  }
}

/** How many calls each key had in the last 24 hours; nothing where whoever looks may not know, or there are too many keys. */
export function useCallsOfKeys(): ReadonlyMap<string, number> | undefined {
  const { id: workspaceId } = useWorkspace();
  const may = useMay()('usage:read');
  const { value } = useRead(async () => {
    const rows = (may && (await countOfDay('key', { workspaceId }))) || [];
    return new Map(summed(rows, ({ apiKeyId }) => `${apiKeyId}`).map((one) => [`${one.apiKeyId}`, one.count]));
  }, workspaceId);
  return value?.size ? value : undefined;
}

const REFUSED_MS = 60_000;
// Those calls, each with what it was decided by.
const callsLike = ({ reason, apiKeyId = '' }: Count) =>
  reason && apiKeyId && `calls?${new URLSearchParams({ reason, apiKeyId }).toString()}`;
const keyIn = ({ apiKeyId, apiKeyName = apiKeyId }: Count) => apiKeyName;
const changeColumn: Column<Count> = {
  title: 'What would change it',
  width: '36%',
  text: ({ reason }) => reason && reasons[reason].change,
};
const refusedColumns: readonly Column<Count>[] = [
  { title: 'Result', width: '22%', text: (one) => resultOf(one)[1], link: callsLike },
  { title: 'Key', text: keyIn, link: ({ apiKeyId }) => apiKeyId && `keys/${apiKeyId}`, none: 'of no key' },
  { title: 'Limit', text: ({ limit }) => limitWords(limit) },
  { title: 'Calls', width: '6rem', amount: 'count' },
];

/** The refused calls of the last 24 hours by reason, key and limit, the most frequent first; `most`: not all of them. */
export function RefusedCalls({ most, action }: { most?: number; action?: ComponentChildren }) {
  const { id: workspaceId } = useWorkspace();
  const { isOfTeam } = useSession();
  const count = async () => {
    const ofKeys = async () =>
      (await countOfDay('status,reason,limit,key', { workspaceId })) ??
      (await countOfDay('status,reason,limit', { workspaceId }));
    // What is no key is of no workspace: it is the team's.
    const unknown = isOfTeam ? countOfDay('status,reason', { status: 'INVALID' }) : [];
    const rows = (await Promise.all([ofKeys(), unknown])).flatMap((some = []) => some);
    const refused = rows.filter(({ status }) => status !== 'VALID');
    return summed(refused, ({ reason, limit, apiKeyId }) => `${reason} ${limit} ${apiKeyId}`).slice(0, most);
  };
  return (
    <Listed
      title="Refused calls, last 24 hours"
      action={action}
      of={useRead(count, workspaceId, REFUSED_MS)}
      items={(rows) => rows}
      columns={most ? refusedColumns : [...refusedColumns, changeColumn]}
      empty="No call was refused. One that is shows here about two seconds later."
    />
  );
}

/** Calls as they happen, and which were refused: those alone, until somebody asks for others. */
export function CallsPage() {
  const { id: workspaceId } = useWorkspace();
  const [{ status, reason, apiKeyId, externalMeterId, usageName, from, to }] = useAsked();
  const of = apiKeyId ? { apiKeyId } : { workspaceId, externalMeterId };
  // What was refused has no usage, and what was not has no reason.
  const isAny = status === 'all' || (status === 'VALID' && reason) || (status === undefined && usageName);
  const which = isAny ? {} : status === undefined ? { refused: true } : { status };
  const isAsked = [status, reason, apiKeyId, externalMeterId, usageName, from, to].some(Boolean);
  const times = { from: from && Number(from), to: to && Number(to) };
  return (
    <Page title="Calls">
      <Finder
        fields={[
          { name: 'status', label: 'Result', options: resultOptions, value: '' },
          { name: 'reason', label: 'Reason', options: reasonOptions, value: '' },
          { name: 'apiKeyId', label: 'Only the key (id)' },
          { name: 'externalMeterId', label: 'Only the customer' },
          { name: 'usageName', label: 'Only the usage' },
          { name: 'from', label: 'From', as: 'moment' },
          { name: 'to', label: 'Until', as: 'moment' },
        ]}
      />
      {!isAsked && <RefusedCalls />}
      <RecentCalls of={{ ...of, ...which, ...times, reason, usageName } as Of} />
      {isAsked && <RefusedCalls />}
    </Page>
  );
}

const LIVE_MS = 2_000;
const MOST_LIVE = 200;
// As many as the api tells at once.
const MOST_TOLD = 100;
// Calls come to the books within so much, not in their order.
const LATE_MS = 10_000;

/** The last calls, with those of now until somebody pauses it. `tellsLast`: why the last of them that was refused was. */
function RecentCalls({ of, tellsLast, bid }: { of: Of; tellsLast?: true; bid?: string | undefined }) {
  const [isPaused, setPaused] = useState(false);
  const paused = useRef(false);
  paused.current = isPaused;
  const read = useRead<Recent[]>(
    async (before = []) => {
      if (paused.current && before.length > 0) return before;
      const since = Math.max(before[0] ? Date.parse(before[0].time) - LATE_MS : 0, of.from ?? 0);
      const { data } = await call('get /api/v1/verifications/recent', { ...of, from: since || undefined });
      return joined(data, before, MOST_TOLD).slice(0, MOST_LIVE);
    },
    JSON.stringify(of),
    LIVE_MS,
  );
  const pause = <Form submit={isPaused ? 'Go on' : 'Pause'} look="minor" onSubmit={async () => setPaused(!isPaused)} />;
  return (
    <Section title="Recent calls" action={pause} of={read}>
      {(rows) => {
        const refused = tellsLast && rows.find(({ status }) => status !== 'VALID');
        return (
          <>
            {refused && (
              <section class="problem" aria-label="The last refusal">
                <Decision of={refused} bid={bid} />
              </section>
            )}
            <Table
              label="Recent calls"
              columns={of.apiKeyId ? columns : [...columns, keyColumn]}
              items={rows}
              empty="No such call in the last 24 hours. One shows here about two seconds after it was made."
            />
            <p class="muted">The last calls of 24 hours, and of refusals at most ten a second of a key.</p>
          </>
        );
      }}
    </Section>
  );
}

// The limit that is a number of its own, beside the list of limits.
const RATE_NAME = 'rateLimitPerSecond';

/** The calls of a key, or of a customer's keys: by result, the last ones, and why the last that was refused was. */
export function Calls({ of, bid }: { of: Pick<Of, 'apiKeyId' | 'externalMeterId'>; bid: string | undefined }) {
  const { id: workspaceId } = useWorkspace();
  const [{ time = 'day' }, ask] = useAsked();
  const span = spans.find(([one]) => one === time)?.[0] ?? 'day';
  const counted = useCounts({ ...of, workspaceId, groupBy: 'status,reason,limit' }, span);
  return (
    <>
      <Section title="Calls">
        <Field label="Time" name="time" options={spans} value={span} onText={(one) => ask({ time: one })} />
        <Loaded of={counted}>{(all) => <Counts {...all} />}</Loaded>
      </Section>
      <RecentCalls of={of.apiKeyId ? of : { ...of, workspaceId }} tellsLast bid={bid} />
    </>
  );
}

/** One decision whole: the last refusal, or what somebody opens. `bid`: its customer, where that is known. */
function Decision({ of, bid: known }: { of: Recent; bid?: string | undefined }) {
  const { reason, limitedBy, apiKeyId: akid, ...call } = of;
  const { id, workspace } = useWorkspace();
  const may = useMay();
  const ofKey = may('key:read') ? { id, akid } : undefined;
  const key = useAnswer('get /api/v1/workspace/{id}/api-key/{akid}', ofKey).value?.apiKey;
  const bid = known ?? key?.billingId;
  const ofRecord = bid && may('billing:read') ? { bid } : undefined;
  const billing = useAnswer('get /api/v1/customer-billing/{bid}', ofRecord).value?.billing;
  const why = reason && explained(reason);
  const at = limitedBy?.on ?? why?.at;
  const links: Record<NonNullable<typeof at>, ComponentChildren> = {
    key: <PageLink to={`keys/${akid}`}>The key</PageLink>,
    billing: <PageLink to={`customers/${bid}`}>The customer</PageLink>,
    workspace: <PageLink to="settings">The defaults of the workspace</PageLink>,
    records: <PageLink to="customers">The customers</PageLink>,
  };
  const record = billing ?? (key && !key.billingId ? 'none' : undefined);
  const stillSo = why?.stillSo?.({ key, record, nowMs: Date.now() });
  const { billingUsage: usage, usedCredits: used } = call;
  const before = usage && used && formatCredits(microsIn(used) - microsIn(usage));
  return (
    <Facts
      of={[
        [reason ? 'Refused' : 'Called', <Time at={call.time} />],
        ['Result', <State of={resultOf(of)} />],
        ['Why', reason && (why?.means ?? 'The call was refused.')],
        ...(limitedBy ? limitFacts(limitedBy, workspace, key, billing) : []),
        ['What would change it', why?.change],
        ['Where', at && (at !== 'billing' || bid) && links[at]],
        ['Available by now', billing && !limitedBy && <Amount of={billing.availableCredits} />],
        ['Now', stillSo === undefined ? undefined : stillSo ? 'It is still so.' : 'It is so no longer.'],
        ['Credits', usage && <Amount of={usage} />],
        ['Used before, and with it', used && `${grouped(before!)} → ${grouped(used)}`],
        ['Usage', call.usageName],
        ['Key', key ? <PageLink to={`keys/${akid}`}>{key.name}</PageLink> : <code>{akid}</code>],
        ['Route', call.route],
        ['Address', call.clientAddress],
      ]}
    />
  );
}

/** The limit that refused, and what it is by now where that is something else. */
function limitFacts(of: NonNullable<Recent['limitedBy']>, workspace: Workspace, key?: ApiKey, billing?: Billing) {
  const { on, name, limit } = of;
  const lists = { key: key?.limits, workspace: workspace.defaultLimits, billing: billing?.limits };
  const one = lists[on]?.find((other) => other.name === name);
  const rate = on === 'workspace' ? workspace.defaultRateLimitPerSecond : key?.rateLimitPerSecond;
  const [window, now] = name === RATE_NAME ? ['requests per second', rate] : [one && windowOf(one), one?.limit];
  const whose = { key: 'the key', workspace: "the workspace's keys", billing: 'the customer' }[on];
  return [
    ['Limit', `${name} of ${whose}: at most ${grouped(String(limit))} ${window ?? ''}`],
    ['By now', now !== undefined && String(now) !== String(limit) && `at most ${grouped(String(now))}`],
  ] as const;
}
