import { IS_COUNTED, IS_USAGE } from '../stores/clickhouse.ts';
import { areDaysOfUtc, countPeriods, dateOf, daysTouched, type Periods } from '../values/periods.ts';
import type { AllowedWorkspace } from './allowed-workspace.ts';
import type { LiveDays } from './live-days.ts';

export const usageGroups = ['billing', 'usageName', 'key', 'route', 'customer'] as const;
export type UsageGroup = (typeof usageGroups)[number];

/** What usage is asked for. */
export type UsageQuestion = {
  workspace: AllowedWorkspace;
  periods: Periods;
  groupBy: readonly UsageGroup[];
  filters?: UsageFilters | undefined;
};

/** Only usage with these properties counts. At most a thousand records are named; none means no usage at all. */
export type UsageFilters = {
  billingIds?: readonly string[];
  usageName?: string;
  apiKeyId?: string;
  route?: string;
  customerId?: string;
};

/** A query with its parameters: every value is one. */
export type Statement = { query: string; params: Record<string, unknown> };

/** Routes of an answer with more of them are counted together, as `other`, but for the largest. */
export const MOST_ROUTES = 1_000;

const columnOf = {
  billing: 'billing_id',
  usageName: 'usage_name',
  key: 'key_id',
  route: 'route',
  customer: 'customer_id',
} as const satisfies Record<UsageGroup, string>;

/** The columns that `usageSql` groups by, after `period`. */
export function keyColumns(groupBy: readonly UsageGroup[]): string[] {
  const columns: string[] = usageGroups.filter((group) => groupBy.includes(group)).map((group) => columnOf[group]);
  return groupBy.includes('route') ? [...columns, 'other'] : columns;
}

/** Whether only the events can answer: the sums of days know no key, route or customer. */
export function needsEvents({ groupBy, filters = {} }: UsageQuestion): boolean {
  const { apiKeyId, route, customerId } = filters;
  const isFiltered = apiKeyId !== undefined || route !== undefined || customerId !== undefined;
  return isFiltered || groupBy.some((group) => group !== 'billing' && group !== 'usageName');
}

/**
 * Selects `period`, the columns of the groups, `micros` and `events`, one row for each period and group that has usage. Days that
 * are over come from their stored sums, live ones from the events; what is booked on a day itself belongs to the period
 * in which the day begins.
 */
export function usageSql(question: UsageQuestion, live: LiveDays): Statement {
  const { periods, groupBy, filters = {} } = question;
  const isDetailed = needsEvents(question);
  const isWhole = areDaysOfUtc(periods);
  const { first, last } = daysTouched(periods);
  // More cuts than that, and a row for each quarter hour is less than one for each cut.
  const byQuarter = countPeriods(periods) > 3 * (last - first + 1);
  const stored = isWhole
    ? [storedDays(question)]
    : [byQuarter ? storedQuarters(question) : storedPieces(question), storedAdjustments(question)];
  const keys = keyColumns(groupBy);
  const branches = isDetailed
    ? [fromEvents(question, isWhole, 'all')]
    : [...stored, fromEvents(question, isWhole, 'live')];
  return {
    query: `
      select ${['period', ...keys].join(', ')}, sum(toInt128(micros)) as micros, sum(events) as events
      from (${branches.join('\nunion all\n')})
      group by ${['period', ...keys].join(', ')}`,
    params: {
      workspace: question.workspace,
      firstDay: dateOf(first),
      lastDay: dateOf(last),
      // The days of UTC need no table of periods, which would be long.
      ...(isEachDay(periods) ? { firstPeriod: first } : { quarters: periods.quarters, days: periods.days }),
      placesFrom: isDetailed || byQuarter ? first : Math.min(firstLive(live), last + 1),
      liveFrom: dateOf(live.from),
      liveDays: live.days.map(dateOf),
      markedIds: live.marked.map(({ billingId }) => (billingId === question.workspace ? '' : billingId)),
      markedDays: live.marked.map(({ day }) => dateOf(day)),
      ...filters,
    },
  };
}

/** Counts the events that a question has to read, whether they are usage or not. */
export function eventsSql({ workspace, periods, filters = {} }: UsageQuestion): Statement {
  const { first, last } = daysTouched(periods);
  const { billingIds } = filters;
  return {
    query: `select count() as events from usage_events where ${IN_RANGE} and ${filtered({ ...(billingIds && { billingIds }) })}`,
    params: { workspace, firstDay: dateOf(first), lastDay: dateOf(last), ...(billingIds && { billingIds }) },
  };
}

const IN_RANGE = 'workspace_id = {workspace:String} and day between {firstDay:Date} and {lastDay:Date}';
const IS_LIVE = `(day >= {liveFrom:Date} or day in {liveDays:Array(Date)}
  or (billing_id, day) in (select arrayJoin(arrayZip({markedIds:Array(String)}, {markedDays:Array(Date)})) as one))`;

// One row for each period.
const PERIODS = `(
  select toUInt64(p.1) as period, p.2 as from_quarter, p.3 as to_quarter, p.4 as from_day, p.5 as to_day from (
    select arrayJoin(arrayZip(range(length({quarters:Array(UInt32)}) - 1),
      arrayPopBack({quarters:Array(UInt32)}), arrayPopFront({quarters:Array(UInt32)}),
      arrayPopBack({days:Array(UInt32)}), arrayPopFront({days:Array(UInt32)}))) as p))`;

// The quarter hours of a day (UTC) that belong to a period.
const PIECES = `(
  select toDate(toUInt16(number)) as day, period,
    greatest(from_quarter, number * 96) - number * 96 as from_slot, least(to_quarter, number * 96 + 96) - number * 96 as to_slot
  from ${PERIODS} array join range(intDiv(from_quarter, 96), intDiv(to_quarter - 1, 96) + 1) as number)`;

/** Where a row belongs: a number for each quarter hour, and one below zero for each day that something is booked on. */
const ofQuarter = (quarter: string) => `toInt32(${quarter})`;
const ofDay = (day: string) => `(-1 - toInt32(${day}))`;

const PLACES = `(
  select ${ofQuarter('quarter')} as place, period from ${PERIODS}
  array join range(greatest(from_quarter, {placesFrom:UInt32} * 96), to_quarter) as quarter
  union all
  select ${ofDay('day')}, period from ${PERIODS} array join range(from_day, to_day) as day)`;

const DAY_PLACES = `(select ${ofDay('day')} as place, period from ${PERIODS} array join range(from_day, to_day) as day)`;

function storedDays(question: UsageQuestion): string {
  return placed(question, {
    micros: 'cost_micros',
    events: 'events',
    place: ofDay('toUInt16(day)'),
    from: storedRows(question, ['cost_micros', 'events']),
    isWhole: true,
  });
}

function storedPieces(question: UsageQuestion): string {
  const inPiece = 'slot >= from_slot and slot < to_slot';
  const isDay = 'from_slot = 0 and to_slot = 96';
  const columns = ['cost_micros', 'adjustment_micros', 'events', 'slots', 'slot_micros', 'slot_events'];
  const sums = [
    `if(${isDay}, cost_micros - adjustment_micros, arraySum((slot, one) -> if(${inPiece}, one, 0), slots, slot_micros)) as micros`,
    `if(${isDay}, stored.events, arraySum((slot, one) -> if(${inPiece}, one, 0), slots, slot_events)) as events`,
  ];
  return `
    select ${['period', ...keyColumns(question.groupBy), ...sums].join(', ')}
    from ${storedRows(question, columns)} as stored inner join ${PIECES} as pieces using (day)
    where arrayExists(slot -> ${inPiece}, slots)`;
}

function storedQuarters(question: UsageQuestion): string {
  return placed(question, {
    micros: 'one_micros',
    events: 'one_events',
    place: ofQuarter('toUInt32(toUInt16(day)) * 96 + slot'),
    from: `${storedRows(question, ['slots', 'slot_micros', 'slot_events'])}
      array join slots as slot, slot_micros as one_micros, slot_events as one_events`,
    isWhole: false,
  });
}

function storedAdjustments(question: UsageQuestion): string {
  return placed(question, {
    micros: 'adjustment_micros',
    events: 'toUInt64(0)',
    place: ofDay('toUInt16(day)'),
    from: storedRows(question, ['adjustment_micros'], 'adjustments > 0'),
    isWhole: false,
  });
}

function storedRows({ groupBy, filters }: UsageQuestion, columns: string[], condition = 'true'): string {
  return `(
    select ${['day', ...keyColumns(groupBy), ...columns].join(', ')} from usage_days final
    where ${IN_RANGE} and not ${IS_LIVE} and ${condition} and ${filtered(filters)})`;
}

/** Usage from the events: of live days, or of all of them. */
function fromEvents(question: UsageQuestion, isWhole: boolean, days: 'live' | 'all'): string {
  const { groupBy, filters } = question;
  const isByRoute = groupBy.includes('route');
  const keys = keyColumns(groupBy.filter((group) => group !== 'route'));
  const columns = ['day', 'time', 'kind', 'cost_micros', ...keys, ...(isByRoute ? ['route as any_route'] : [])];
  const rows = `(
    select ${columns.join(', ')} from usage_events final
    where ${IN_RANGE} and ${IS_USAGE} and ${days === 'live' ? IS_LIVE : 'true'} and ${filtered(filters)})`;
  const [byDay, byQuarter] = [ofDay('toUInt16(day)'), ofQuarter('intDiv(toUnixTimestamp(time), 900)')];
  return placed(question, {
    micros: 'cost_micros',
    events: `toUInt64(${IS_COUNTED})`,
    place: isWhole ? byDay : `if(kind = 'adjustment', ${byDay}, ${byQuarter})`,
    from: isByRoute ? withLargestRoutes(rows) : rows,
    isWhole,
  });
}

function withLargestRoutes(rows: string): string {
  return `(
    select * except (any_route), any_route = '' or any_route in (
        select any_route from ${rows} where any_route != ''
        group by any_route order by sum(cost_micros) desc, count() desc, any_route limit ${MOST_ROUTES}) as is_shown,
      if(is_shown, any_route, '') as route, not is_shown as other
    from ${rows})`;
}

type Placed = { micros: string; events: string; place: string; from: string; isWhole: boolean };

/** Joins rows with the periods that they belong to; those of none are left out. */
function placed({ groupBy, periods }: UsageQuestion, { micros, events, place, from, isWhole }: Placed): string {
  const keys = keyColumns(groupBy);
  const sums = [`${micros} as micros`, `${events} as events`];
  if (isEachDay(periods)) {
    const period = `toUInt64(-1 - ${place} - {firstPeriod:UInt32}) as period`;
    return `select ${[period, ...keys, ...sums].join(', ')} from ${from}`;
  }
  return `
    select ${['period', ...keys, 'micros', 'events'].join(', ')}
    from (select ${[...keys, ...sums, `${place} as place`].join(', ')} from ${from}) as placed
    inner join ${isWhole ? DAY_PLACES : PLACES} as places using (place)`;
}

/** Whether the periods are the days of UTC, each by itself. */
function isEachDay(periods: Periods): boolean {
  return areDaysOfUtc(periods) && periods.days.at(-1) === periods.days[0]! + countPeriods(periods);
}

function firstLive({ from, days, marked }: LiveDays): number {
  return Math.min(from, ...days, ...marked.map(({ day }) => day));
}

function filtered({ billingIds, usageName, apiKeyId, route, customerId }: UsageFilters = {}): string {
  const conditions = [
    billingIds && 'billing_id in {billingIds:Array(String)}',
    usageName !== undefined && 'usage_name = {usageName:String}',
    apiKeyId !== undefined && 'key_id = {apiKeyId:String}',
    route !== undefined && 'route = {route:String}',
    customerId !== undefined && 'customer_id = {customerId:String}',
  ];
  return conditions.filter(Boolean).join(' and ') || 'true';
}
