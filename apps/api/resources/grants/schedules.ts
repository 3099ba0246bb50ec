import { Type } from 'typebox';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { credits, id, instant, named, object, timestamp, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { name as grantName, LAST_INSTANT } from '../../../../shared/contract/schemas.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { calendarUnits, isTimezone, periodAt, periodStart } from '../../../../shared/values/calendar.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { present, tableOf, type Row } from '../rows.ts';
import { addGrant, type GrantMaker, type LockedRecord } from './classes.ts';
import { priority as grantPriority } from './grants.ts';

const MOST_SCHEDULES = 10;
// So many periods are in Redis before they begin.
const AHEAD = 2;

/** A grant schedule as the API answers it. */
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

export type ScheduleRow = Omit<Row<typeof grantSchedule>, 'credits' | 'rollover'> & {
  amountMicros: number;
  rollMaxMicros: number | null;
  nextPeriod: number;
  nextAt: number | null;
};

export const schedules = tableOf<ScheduleRow>(
  'grant_schedules',
  `id, billing_id, amount_micros, every, timezone, anchor_at, ends_at, priority, name, roll_max_micros, next_period, next_at,
   plan_id, created_at`,
  'grant_schedule_not_found',
);

/** A row as the API answers it. */
export function presentSchedule(row: ScheduleRow) {
  const { amountMicros, rollMaxMicros } = row;
  const rollover = rollMaxMicros === null ? null : { maxCredits: formatCredits(rollMaxMicros) };
  return present(grantSchedule, { ...row, credits: formatCredits(amountMicros), rollover });
}

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
  const { anchorAt, endsAt, zone } = timesOf(schedule, nowMs);
  const { amountMicros, every, priority = 50, name, rollMaxMicros, planId = null, planPlace = null } = schedule;
  const [{ count }] = await sql<[{ count: number }]>`
    select count(*)::int as count from grant_schedules where billing_id = ${record.id} and deleted_at is null`;
  if (limited && count >= MOST_SCHEDULES) throw new ApiError('grant_schedule_limit_reached');
  const first = Math.max(0, periodAt({ every, timezone: zone, anchorMs: anchorAt }, from));
  const row = await schedules.insert(sql, {
    id: newId('sched'),
    ...maker,
    billingId: record.id,
    amountMicros,
    every,
    timezone: zone,
    anchorAt,
    endsAt,
    priority,
    name,
    rollMaxMicros,
    planId,
    planPlace,
    nextPeriod: first,
  });
  return { row, notGranted: await makePeriods(sql, row, maker, nowMs, { limited, from }) };
}

function timesOf({ anchorAt, endsAt: until, timezone: zone = 'UTC' }: Times, nowMs: number) {
  const endsAt = until ?? null;
  const from = anchorAt ?? nowMs;
  if (!isTimezone(zone)) throw invalidField('/timezone', 'must be the name of a time zone, such as Europe/Berlin');
  if (from < 0 || from > LAST_INSTANT) throw invalidField('/anchorAt', 'must be in Unix milliseconds');
  if (endsAt !== null && (endsAt <= Math.max(from, nowMs) || endsAt > LAST_INSTANT))
    throw invalidField('/endsAt', 'must lie after anchorAt, and in the future, in Unix milliseconds');
  return { anchorAt: from, endsAt, zone };
}

/** Throws an error again that is not of too many credits, which leave out a grant that nobody asks for now. */
export function refuseButTooLarge(error: unknown): void {
  if (!(error instanceof ApiError) || error.errorName !== 'credits_too_large') throw error;
}

type Times = { anchorAt?: number; endsAt?: number; timezone?: string };

/** A period for which nothing was granted: the record would have had too many credits. */
type NotGranted = { period: number; beginsAt: number };

/** Lines of the audit log for periods of a schedule that have no grant. */
export function notGrantedLines(row: ScheduleRow, periods: NotGranted[]) {
  const before = presentSchedule(row);
  return periods.map((notGranted) => {
    return { resource: 'grant_schedule' as const, id: row.id, before, after: { ...before, notGranted } };
  });
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
  const {
    id: scheduleId,
    billingId,
    amountMicros,
    priority: number,
    name: called,
    endsAt,
    rollMaxMicros,
    planId,
  } = schedule;
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
      priority: number,
      beginsAt,
      expiresAt: start(period + 1),
      name: called ?? undefined,
      period: { scheduleId, number: period },
      planId: planId ?? undefined,
      ...(rollMaxMicros !== null && { rollover: { until: start(period + 2), mostMicros: rollMaxMicros } }),
    };
    try {
      await addGrant(sql, { id: billingId }, grant, maker, nowMs, { limited });
    } catch (error) {
      if (limited) throw error;
      refuseButTooLarge(error);
      notGranted.push({ period, beginsAt });
    }
  }
  const nextPeriod = running + AHEAD + 1;
  const nextAt = endsAt !== null && start(nextPeriod) >= endsAt ? null : start(running + 1);
  await sql`update grant_schedules set next_period = ${nextPeriod}, next_at = ${nextAt} where id = ${scheduleId}`;
  return notGranted;
}
