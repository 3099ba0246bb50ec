import { IS_COUNTED, IS_USAGE } from '../../stores/clickhouse.ts';
import { areDaysOfUtc, countPeriods, dateOf, daysTouched, type Periods } from '../../values/periods.ts';
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

/** A question names at most so many records: ClickHouse takes 128 KiB of a parameter. */
export const MOST_FILTERED_RECORDS = 1_000;

/** Only usage with these properties counts. Without a record that is named there is no usage at all. */
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

/** Whether an answer sums events, and not only stored days. */
export function readsEvents(question: UsageQuestion, live: LiveDays): boolean {
  return needsEvents(question) || liveCondition(live, daysTouched(question.periods).last) !== undefined;
}

/**
 * Selects `period`, the columns of the groups, `micros` and `events`, one row for each period and group that has usage. Days that
 * are over come from their stored sums, live ones from the events; what is booked on a day itself belongs to the period
 * in which the day begins.
 */
export function usageSql(question: UsageQuestion, live: LiveDays): Statement {
  const { periods, groupBy, filters = {} } = question;
  const isWhole = areDaysOfUtc(periods);
  const { first, last } = daysTouched(periods);
  const isLive = liveCondition(live, last);
  const ofDays = isStored(question, isLive);
  // More cuts than that, and a row for each quarter hour is less than one for each cut.
  const inQuarters = countPeriods(periods) > 3 * (last - first + 1);
  const stored = isWhole
    ? [wholeDays(question, ofDays)]
    : inQuarters
      ? [storedQuarters(question, ofDays)]
      : [storedPieces(question, ofDays), storedAdjustments(question, ofDays)];
  const branches = needsEvents(question)
    ? [fromEvents(question, isWhole)]
    : [...stored, ...(isLive ? [fromEvents(question, isWhole, isLive)] : [])];
  const keys = keyColumns(groupBy);
  return {
    query: `
      select ${['period', ...keys].join(', ')}, sum(toInt128(micros)) as micros, sum(events) as events
      from (${branches.join('\nunion all\n')})
      group by ${['period', ...keys].join(', ')}`,
    params: {
      workspace: question.workspace,
      firstDay: dateOf(first),
      lastDay: dateOf(last),
      ...placesOf(periods, { inPieces: !inQuarters && !needsEvents(question) }),
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

/** The condition under which a day up to the last one is summed from the events; undefined where none is. */
function liveCondition({ from, days, marked }: LiveDays, last: number): string | undefined {
  const conditions = [
    from <= last && 'day >= {liveFrom:Date}',
    days.length > 0 && 'day in {liveDays:Array(Date)}',
    marked.length > 0 &&
      '(billing_id, day) in (select arrayJoin(arrayZip({markedIds:Array(String)}, {markedDays:Array(Date)})) as one)',
  ].filter(Boolean);
  return conditions.length > 0 ? `(${conditions.join(' or ')})` : undefined;
}

/** Where periods begin. The days of UTC need no list, which would be long, and even periods need one in pieces alone. */
function placesOf(periods: Periods, { inPieces }: { inPieces: boolean }): Record<string, unknown> {
  const { quarters, days } = periods;
  if (isEachDay(periods)) return { firstPeriod: days[0] };
  const step = evenStep(periods);
  // In hours, few periods have a day that begins in them.
  const withDays = days.flatMap((day, i) => (i + 1 < days.length && day < days[i + 1]! ? [i] : []));
  return {
    ...((inPieces || step === undefined) && { starts: quarters.slice(0, -1) }),
    firstQuarter: quarters[0],
    ...(step !== undefined && { step }),
    end: quarters.at(-1),
    dayStarts: withDays.length > 0 ? withDays.map((i) => days[i]) : [days[0]],
    dayPeriods: withDays.length > 0 ? withDays : [0],
    dayEnd: days.at(-1),
  };
}

type Place = { period: string; isInside: string };

/** The period of a quarter hour, counted from 1970. A list of hours would be long, and be looked through for each. */
function ofQuarter({ periods }: UsageQuestion, quarter: string): Place {
  const isInside = `${quarter} >= {firstQuarter:UInt32} and ${quarter} < {end:UInt32}`;
  if (evenStep(periods) !== undefined)
    return { period: `toUInt64(intDiv(${quarter} - {firstQuarter:UInt32}, {step:UInt32}))`, isInside };
  const starts = '{starts:Array(UInt32)}';
  return { period: `transform(roundDown(${quarter}, ${starts}), ${starts}, range(length(${starts})))`, isInside };
}

/** The period of what is booked on a day, counted from 1970. */
function ofDay({ periods }: UsageQuestion, day: string): Place {
  if (isEachDay(periods)) return { period: `toUInt64(${day} - {firstPeriod:UInt32})`, isInside: 'true' };
  const starts = '{dayStarts:Array(UInt32)}';
  return {
    period: `transform(roundDown(${day}, ${starts}), ${starts}, {dayPeriods:Array(UInt64)})`,
    isInside: `${day} >= ${starts}[1] and ${day} < {dayEnd:UInt32}`,
  };
}

const DAY = 'toUInt32(toUInt16(day))';

// The quarter hours of a day (UTC) that belong to a period.
const PIECES = `(
  select toDate(toUInt16(number)) as day, toUInt64(one.1) as period,
    greatest(one.2, number * 96) - number * 96 as from_slot, least(one.3, number * 96 + 96) - number * 96 as to_slot
  from (
    select arrayJoin(arrayZip(range(length({starts:Array(UInt32)})), {starts:Array(UInt32)},
      arrayPushBack(arrayPopFront({starts:Array(UInt32)}), {end:UInt32}))) as one)
  array join range(intDiv(one.2, 96), intDiv(one.3 - 1, 96) + 1) as number)`;

// Each level of a query costs ClickHouse a millisecond before it reads anything: where a table can be read directly, it is.
function wholeDays(question: UsageQuestion, isOfDays: string): string {
  const { period, isInside } = ofDay(question, DAY);
  const columns = [`${period} as period`, ...keyColumns(question.groupBy), 'cost_micros as micros', 'events'];
  return `select ${columns.join(', ')} from usage_days final where ${isOfDays} and ${isInside}`;
}

function storedPieces({ groupBy }: UsageQuestion, isOfDays: string): string {
  const columns = ['cost_micros', 'events', 'slots', 'slot_micros', 'slot_events', 'adjustment_micros'];
  const rows = `(select ${['day', ...keyColumns(groupBy), ...columns].join(', ')} from usage_days final where ${isOfDays})`;
  const inPiece = 'slot >= from_slot and slot < to_slot';
  const isDay = 'from_slot = 0 and to_slot = 96';
  const sums = [
    `if(${isDay}, cost_micros - adjustment_micros, arraySum((slot, one) -> if(${inPiece}, one, 0), slots, slot_micros)) as micros`,
    `if(${isDay}, stored.events, arraySum((slot, one) -> if(${inPiece}, one, 0), slots, slot_events)) as events`,
  ];
  return `
    select ${['period', ...keyColumns(groupBy), ...sums].join(', ')}
    from ${rows} as stored inner join ${PIECES} as pieces using (day)
    where arrayExists(slot -> ${inPiece}, slots)`;
}

function storedAdjustments(question: UsageQuestion, isOfDays: string): string {
  const { period, isInside } = ofDay(question, DAY);
  const sums = ['adjustment_micros as micros', 'toUInt64(0) as events'];
  return `
    select ${[`${period} as period`, ...keyColumns(question.groupBy), ...sums].join(', ')}
    from usage_days final where ${isOfDays} and adjustments > 0 and ${isInside}`;
}

// Behind the quarter hours of a day stands what is booked on the day itself.
function storedQuarters(question: UsageQuestion, isOfDays: string): string {
  const keys = keyColumns(question.groupBy);
  const [quarter, day] = [ofQuarter(question, `${DAY} * 96 + slot`), ofDay(question, DAY)];
  const period = `if(slot = 96, ${day.period}, ${quarter.period}) as period`;
  const withDay = (name: string, ofTheDay: string) =>
    `if(adjustments > 0, arrayPushBack(${name}, ${ofTheDay}), ${name})`;
  return `
    select ${[period, ...keys, 'one_micros as micros', 'one_events as events'].join(', ')}
    from usage_days final
    array join ${withDay('slots', '96')} as slot, ${withDay('slot_micros', 'adjustment_micros')} as one_micros,
      ${withDay('slot_events', '0')} as one_events
    where ${isOfDays} and if(slot = 96, ${day.isInside}, ${quarter.isInside})`;
}

/** Whether a row of usage_days is asked for and complete. */
function isStored({ filters }: UsageQuestion, isLive: string | undefined): string {
  return `${IN_RANGE} and ${isLive ? `not ${isLive}` : 'true'} and ${filtered(filters)}`;
}

/** Usage from the events: of days with a condition, or of all of them. */
function fromEvents(question: UsageQuestion, isWhole: boolean, isLive = 'true'): string {
  const { groupBy, filters } = question;
  const isOfEvents = `${IN_RANGE} and ${IS_USAGE} and ${isLive} and ${filtered(filters)}`;
  const [day, quarter] = [ofDay(question, DAY), ofQuarter(question, 'toUInt32(intDiv(toUnixTimestamp(time), 900))')];
  const either = (ofDays: string, ofQuarters: string) =>
    isWhole ? ofDays : `if(kind = 'adjustment', ${ofDays}, ${ofQuarters})`;
  const period = `${either(day.period, quarter.period)} as period`;
  const sums = ['cost_micros as micros', `toUInt64(${IS_COUNTED}) as events`];
  const isInside = either(day.isInside, quarter.isInside);
  const rows = groupBy.includes('route')
    ? `${withLargestRoutes(groupBy, isOfEvents)} where ${isInside}`
    : `usage_events final where ${isOfEvents} and ${isInside}`;
  return `
    select ${[period, ...keyColumns(groupBy), ...sums].join(', ')}
    from ${rows}`;
}

function withLargestRoutes(groupBy: readonly UsageGroup[], isOfEvents: string): string {
  const keys = keyColumns(groupBy.filter((group) => group !== 'route'));
  const columns = ['day', 'time', 'kind', 'cost_micros', ...keys, 'route as any_route'];
  const rows = `(select ${columns.join(', ')} from usage_events final where ${isOfEvents})`;
  return `(
    select * except (any_route), any_route = '' or any_route in (
        select any_route from ${rows} where any_route != ''
        group by any_route order by sum(cost_micros) desc, count() desc, any_route limit ${MOST_ROUTES}) as is_shown,
      if(is_shown, any_route, '') as route, toBool(not is_shown) as other
    from ${rows})`;
}

/** How many quarter hours each period has, the last one at most so many; undefined where that differs, or is none. */
function evenStep({ quarters }: Periods): number | undefined {
  const step = quarters[1]! - quarters[0]!;
  const isEven = quarters.every((quarter, i) => {
    const even = quarters[0]! + i * step;
    return i === quarters.length - 1 ? quarter <= even : quarter === even;
  });
  return isEven && step > 0 ? step : undefined;
}

/** Whether the periods are the days of UTC, each by itself. */
function isEachDay(periods: Periods): boolean {
  return areDaysOfUtc(periods) && periods.days.at(-1) === periods.days[0]! + countPeriods(periods);
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
