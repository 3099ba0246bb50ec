import { Type } from 'typebox';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { credits, id, instant, named, object, timestamp, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { name as grantName, LAST_INSTANT } from '../../../../shared/contract/schemas.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { calendarUnits, isTimezone, periodAt, periodStart } from '../../../../shared/values/calendar.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { answered, columnsOf, present, tableOf, without, type Row } from '../rows.ts';
import { addGrant, type GrantMaker, type LockedRecord } from './classes.ts';
import { priority as grantPriority } from './grants.ts';

const MOST_SCHEDULES = 10;
// So many periods are in Redis before they begin.
const AHEAD = 2;

export const grantSchedule = named(
  'GrantSchedule',
  object({
    id: id('grant schedule'),
    billingId: id('billing record'),
    credits: credits('credits granted for each period'),
    name: Type.Optional(grantName),
    every: Type.Enum([...calendarUnits], { description: 'how long a period is', examples: ['month'] }),
    timezone: plainText(64, 'name of a time zone (IANA), in whose local time periods are counted', 'Europe/Berlin'),
    anchorAt: instant('when the first period begins, or began'),
    endsAt: Type.Optional(instant('no period begins at or after it')),
    priority: grantPriority,
    rollover: Type.Optional(
      object({ maxCredits: credits('most that lives on when a period ends, for one period more') }),
    ),
    planId: Type.Optional(id('plan', ' that gave it')),
    createdAt: timestamp('when it was made'),
  }),
);

/** What a request says of the periods of a schedule. */
export const newPeriods = {
  every: grantSchedule.properties.every,
  timezone: Type.Optional({ ...grantSchedule.properties.timezone, default: 'UTC' }),
  anchorAt: Type.Optional(instant('when a period begins, from which the others are counted; default now')),
};

const stored = without(grantSchedule, ['credits', 'rollover']);
export type ScheduleRow = Row<typeof stored> & {
  amountMicros: number;
  rollMaxMicros: number | null;
  nextPeriod: number;
  nextAt: number | null;
};

const columns = `${columnsOf(stored)}, amount_micros, roll_max_micros, next_period, next_at`;
const table = tableOf<ScheduleRow>('grant_schedules', columns, 'grant_schedule_not_found');
export const schedules = answered('grant_schedule', table, (row) => {
  const { amountMicros, rollMaxMicros } = row;
  const rollover = rollMaxMicros === null ? null : { maxCredits: formatCredits(rollMaxMicros) };
  return present(grantSchedule, { ...row, credits: formatCredits(amountMicros), rollover });
});

type NewSchedule = Pick<ScheduleRow, 'amountMicros' | 'every'> & {
  timezone?: string;
  anchorAt?: number;
  endsAt?: number;
  priority?: number;
  name?: string | undefined;
  rollMaxMicros: number | null;
  planId?: string;
  /** Which one of the plan's it is. */
  planPlace?: number;
};

/**
 * Adds a schedule to a locked record, with the grants of its first periods: of that in which `from` lies, from then on, and of those
 * after it. Gives it, and the periods that have none.
 */
export async function addSchedule(
  sql: Query,
  record: LockedRecord,
  schedule: NewSchedule,
  maker: GrantMaker,
  nowMs: number,
  { from = nowMs, limited = true } = {},
): Promise<{ row: ScheduleRow; notGranted: NotGranted[] }> {
  const { amountMicros, every, priority = 50, name, rollMaxMicros, planId, planPlace } = schedule;
  const { anchorAt = nowMs, endsAt, timezone = 'UTC' } = schedule;
  checkPeriods({ timezone, anchorAt });
  if (endsAt !== undefined && (endsAt <= Math.max(anchorAt, nowMs) || endsAt > LAST_INSTANT))
    throw invalidField('/endsAt', 'must lie after anchorAt, and in the future, in Unix milliseconds');
  const isLive = sql`billing_id = ${record.id} and deleted_at is null`;
  if (limited) await schedules.requireFew(sql, isLive, MOST_SCHEDULES, 'grant_schedule_limit_reached');
  const nextPeriod = Math.max(0, periodAt({ every, timezone, anchorMs: anchorAt }, from));
  const { teamId, tokenId, requestId } = maker;
  const by = { id: newId('sched'), teamId, tokenId, requestId, billingId: record.id };
  const given = { amountMicros, every, priority, name, rollMaxMicros, planId, planPlace };
  const row = await schedules.insert(sql, { ...by, ...given, anchorAt, endsAt, timezone, nextPeriod });
  return { row, notGranted: await makePeriods(sql, row, maker, nowMs, { limited, from }) };
}

/** Throws 400 for periods that can't be counted. */
export function checkPeriods({ timezone = 'UTC', anchorAt = 0 }: Partial<Times>, path = ''): void {
  if (!isTimezone(timezone))
    throw invalidField(`${path}/timezone`, 'must be the name of a time zone, such as Europe/Berlin');
  if (anchorAt < 0 || anchorAt > LAST_INSTANT) throw invalidField(`${path}/anchorAt`, 'must be in Unix milliseconds');
}

/** Throws an error again that is not of too many credits, or ends of them, which leave out a grant that nobody asks for now. */
export function refuseButTooMany(error: unknown): void {
  const isTooMany =
    error instanceof ApiError && /^(credits_too_large|grant_class_limit_reached)$/.test(error.errorName);
  if (!isTooMany) throw error;
}

type Times = { timezone: string; anchorAt: number };

/** A period for which nothing was granted: the record would have had too many credits. */
type NotGranted = { period: number; beginsAt: number };

/** Lines of the audit log for periods of a schedule that have no grant. */
export function notGrantedLines(row: ScheduleRow, periods: NotGranted[]) {
  const line = schedules.recorded({ before: row });
  return periods.map((notGranted) => ({ ...line, after: { ...line.before, notGranted } }));
}

/**
 * Makes the grants of a schedule's running period and of the next two, as far as they are not made, and notes when the one after
 * these is due. The record is locked, and the schedule too: a period is made once. One that has passed meanwhile is left out.
 */
export async function makePeriods(
  sql: Query,
  schedule: ScheduleRow,
  maker: GrantMaker,
  nowMs: number,
  { limited, from = nowMs }: { limited: boolean; from?: number },
): Promise<NotGranted[]> {
  const notGranted: NotGranted[] = [];
  const { id: scheduleId, billingId, amountMicros, priority, name, endsAt, rollMaxMicros, planId } = schedule;
  const recurrence = { every: schedule.every, timezone: schedule.timezone, anchorMs: schedule.anchorAt };
  const start = (period: number) => periodStart(recurrence, period);
  // Before the anchor none is running.
  const running = Math.max(-1, periodAt(recurrence, nowMs));
  for (let period = Math.max(schedule.nextPeriod, running, 0); period <= running + AHEAD; period++) {
    const beginsAt = Math.max(start(period), from);
    if (endsAt !== null && beginsAt >= endsAt) break;
    const grant = {
      id: newId('grant'),
      amountMicros,
      priority,
      beginsAt,
      expiresAt: start(period + 1),
      name: name ?? undefined,
      period: { scheduleId, number: period },
      planId: planId ?? undefined,
      ...(rollMaxMicros !== null && { rollover: { until: start(period + 2), mostMicros: rollMaxMicros } }),
    };
    try {
      await addGrant(sql, { id: billingId }, grant, maker, nowMs, { limited });
    } catch (error) {
      if (limited) throw error;
      refuseButTooMany(error);
      notGranted.push({ period, beginsAt });
    }
  }
  const nextPeriod = running + AHEAD + 1;
  const nextAt = endsAt !== null && start(nextPeriod) >= endsAt ? null : start(running + 1);
  await sql`update grant_schedules set next_period = ${nextPeriod}, next_at = ${nextAt} where id = ${scheduleId}`;
  return notGranted;
}
