import { IS_COUNTED, IS_USAGE } from '../../stores/clickhouse.ts';
import { areDaysOfUtc, dateOf, daysTouched, type Periods } from '../../values/periods.ts';
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

const fieldsOf = {
  billing: ['billingId', 'billing_id'],
  usageName: ['usageName', 'usage_name'],
  key: ['apiKeyId', 'key_id'],
  route: ['route', 'route'],
  customer: ['customerId', 'customer_id'],
} as const satisfies Record<UsageGroup, [field: string, column: string]>;

/** A field of `usageSql` that tells the group of a row. */
export type KeyField = (typeof fieldsOf)[UsageGroup][0] | 'other';

/** The fields that `usageSql` groups by, after `period`. */
export function keyFields(groupBy: readonly UsageGroup[]): KeyField[] {
  const fields: KeyField[] = keysOf(groupBy).map(([field]) => field);
  return groupBy.includes('route') ? [...fields, 'other'] : fields;
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
 * Selects `period`, the fields of the groups, `micros` and `events`, one row for each period and group that has usage. Days that
 * are over come from their stored sums, live ones from the events; what is booked on a day itself belongs to the period
 * in which the day begins.
 */
export function usageSql(question: UsageQuestion, live: LiveDays): Statement {
  const { periods, groupBy, filters = {} } = question;
  const isWhole = areDaysOfUtc(periods);
  const { first, last } = daysTouched(periods);
  const isLive = liveCondition(live, last);
  const { ofDays, ofQuarters } = placesOf(periods);
  const day = placeIn('day', DAY, ofDays);
  const quarter = placeIn('quarter', `${DAY} * ${OF_THE_DAY} + slot`, ofQuarters);
  const either = (ofDay: string, ofQuarter: string) =>
    isWhole ? ofDay : `if(slot = ${OF_THE_DAY}, ${ofDay}, ${ofQuarter})`;
  const isInside = either(day.isInside, quarter.isInside);
  const branches = needsEvents(question)
    ? [fromEvents(question, isWhole, isInside)]
    : [fromDays(question, isWhole, isLive), ...(isLive ? [fromEvents(question, isWhole, isInside, isLive)] : [])];
  const keys = ['period', ...keyFields(groupBy)].join(', ');
  return {
    query: `
      select ${either(day.period, quarter.period)} as ${keys}, sum(toInt128(micros)) as micros, sum(events) as events
      from (${branches.join('\nunion all\n')})
      where ${isInside}
      group by ${keys}`,
    params: {
      workspace: question.workspace,
      firstDay: dateOf(first),
      lastDay: dateOf(last),
      ...day.params,
      ...(!isWhole && quarter.params),
      liveFrom: dateOf(live.from),
      liveDays: live.days.map(dateOf),
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
function liveCondition({ from, days }: LiveDays, last: number): string | undefined {
  const conditions = [
    from <= last && 'day >= {liveFrom:Date}',
    days.length > 0 && 'day in {liveDays:Array(Date)}',
  ].filter(Boolean);
  return conditions.length > 0 ? `(${conditions.join(' or ')})` : undefined;
}

/** Where periods begin, and which they are, and where the last one ends; counted from 1970. */
type Places = { starts: number[]; numbers: number[]; end: number };

/** By quarter hours, and by days those in which one begins: of hours, few. */
function placesOf({ quarters, days }: Periods): { ofQuarters: Places; ofDays: Places } {
  const all = quarters.slice(0, -1).map((_, i) => i);
  const withDays = all.filter((i) => days[i]! < days[i + 1]!);
  const numbers = withDays.length > 0 ? withDays : [0];
  return {
    ofQuarters: { starts: quarters.slice(0, -1), numbers: all, end: quarters.at(-1)! },
    ofDays: { starts: numbers.map((i) => days[i]!), numbers, end: days.at(-1)! },
  };
}

/** The period of a quarter hour, or of what is booked on a day. A list of even ones may be too long to send. */
function placeIn(unit: 'day' | 'quarter', value: string, { starts, numbers, end }: Places) {
  const [first = 0, second = end] = starts;
  const step = second - first;
  const isEven =
    step > 0 &&
    end <= first + starts.length * step &&
    starts.every((start, i) => start === first + i * step && numbers[i] === i);
  const list = `{${unit}Starts:Array(UInt32)}`;
  return {
    period: isEven
      ? `toUInt64(intDiv(${value} - {${unit}First:UInt32}, {${unit}Step:UInt32}))`
      : `transform(roundDown(${value}, ${list}), ${list}, {${unit}Numbers:Array(UInt64)})`,
    isInside: `${value} >= {${unit}First:UInt32} and ${value} < {${unit}End:UInt32}`,
    params: {
      [`${unit}First`]: first,
      [`${unit}End`]: end,
      ...(isEven ? { [`${unit}Step`]: step } : { [`${unit}Starts`]: starts, [`${unit}Numbers`]: numbers }),
    },
  };
}

const DAY = 'toUInt32(toUInt16(day))';
// Behind the quarter hours of a day stands what is booked on the day itself.
const OF_THE_DAY = 96;

function keysOf(groupBy: readonly UsageGroup[]) {
  return usageGroups.filter((group) => groupBy.includes(group)).map((group) => fieldsOf[group]);
}

function columnsOf(groupBy: readonly UsageGroup[], [slot, micros, events]: [string, string, string]): string {
  const keys = keysOf(groupBy).map(([field, column]) => `${column} as ${field}`);
  return ['day', `${slot} as slot`, ...keys, `${micros} as micros`, `${events} as events`].join(', ');
}

/** Usage from the sums of days that are not live: of whole days, or of their quarter hours. */
function fromDays({ groupBy, filters }: UsageQuestion, isWhole: boolean, isLive: string | undefined): string {
  const withDay = (name: string, ofTheDay: string | number) =>
    `if(adjustments > 0, arrayPushBack(${name}, ${ofTheDay}), ${name})`;
  const [columns, joined] = isWhole
    ? [columnsOf(groupBy, [String(OF_THE_DAY), 'cost_micros', 'events']), '']
    : [
        columnsOf(groupBy, ['one_slot', 'one_micros', 'one_events']),
        `array join ${withDay('slots', OF_THE_DAY)} as one_slot, ${withDay('slot_micros', 'adjustment_micros')} as one_micros,
          ${withDay('slot_events', 0)} as one_events`,
      ];
  return `
    select ${columns} from usage_days final ${joined}
    where ${IN_RANGE} and ${isLive ? `not ${isLive}` : 'true'} and ${filtered(filters)}`;
}

/** Usage from the events: of days with a condition, or of all of them. */
function fromEvents({ groupBy, filters }: UsageQuestion, isWhole: boolean, isInside: string, isLive = 'true'): string {
  const ofQuarter = `if(kind = 'adjustment', ${OF_THE_DAY}, toHour(time) * 4 + intDiv(toMinute(time), 15))`;
  const values = [isWhole ? String(OF_THE_DAY) : ofQuarter, 'cost_micros', `toUInt64(${IS_COUNTED})`];
  const others = groupBy.filter((group) => group !== 'route');
  const rows = (more = '') => `
    select ${columnsOf(others, values as [string, string, string])}${more} from usage_events final
    where ${IN_RANGE} and ${IS_USAGE} and ${isLive} and ${filtered(filters)}`;
  if (others.length === groupBy.length) return rows();
  const withRoute = rows(', route as any_route');
  return `
    select * except (any_route), any_route = '' or any_route in (
        select any_route from (${withRoute}) where any_route != '' and ${isInside}
        group by any_route order by sum(micros) desc, count() desc, any_route limit ${MOST_ROUTES}) as is_shown,
      if(is_shown, any_route, '') as route, toBool(not is_shown) as other
    from (${withRoute})`;
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
