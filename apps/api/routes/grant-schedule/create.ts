import { Type } from 'typebox';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { credits, id, instant, object } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import { isTimezone, periodAt } from '../../../../shared/values/calendar.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { LAST_INSTANT } from '../../resources/expires-at.ts';
import { creditsIn, refuseDeletedWorkspace, requireBilling } from '../../resources/billings/billings.ts';
import { priority, requireFewEnded } from '../../resources/grants/grants.ts';
import {
  every,
  grantSchedule,
  makePeriods,
  MOST_SCHEDULES,
  presentSchedule,
  rollover,
  scheduleColumns,
  timezone,
  type ScheduleRow,
} from '../../resources/grants/schedules.ts';
import { readAccount } from '../../sync/accounts.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'post',
  path: '/api/v1/customer-billing/{bid}/grant-schedule',
  tag: 'Customer billing',
  operationId: 'createGrantSchedule',
  summary: 'Grant credits to a billing record every day, week, month or year',
  description:
    'Makes a grant for the running period, which ends with it, and for each that follows. Periods are counted from the anchor in local time.',
  permission: 'billing:write',
  status: 201,
  writes: true,
  grows: true,
  params: object({ bid: id('billing record') }),
  body: object({
    credits: credits('credits to grant for each period, above 0'),
    every,
    timezone: Type.Optional({ ...timezone, default: 'UTC' }),
    anchorAt: Type.Optional(instant('when a period begins, from which the others are counted; default now')),
    endsAt: Type.Optional(instant('no period begins at or after it; default never')),
    priority: Type.Optional(priority),
    name: Type.Optional(name),
    rollover: Type.Optional(rollover),
  }),
  response: object({ grantSchedule }),
  errors: [
    'billing_not_found',
    'workspace_deleted',
    'credits_too_large',
    'grant_schedule_limit_reached',
    'grant_class_limit_reached',
    'grant_pending_limit_reached',
    'grant_ended_limit_reached',
  ],

  async handle({ sql, params, body, caller, changed, audit, redis, requestId }) {
    const record = await requireBilling(sql, caller, params.bid, { lock: true });
    await refuseDeletedWorkspace(sql, record);
    const amountMicros = creditsIn('credits', body.credits);
    if (amountMicros === 0) throw invalidField('/credits', 'must be above 0');
    const account = await readAccount(redis, record);
    requireFewEnded(account);
    const { atMs } = account.balance;
    const { anchorAt, endsAt, zone } = timesOf(body, atMs);
    const rollMaxMicros = body.rollover ? creditsIn('rollover/maxCredits', body.rollover.maxCredits) : null;
    const [{ schedules }] = await sql<[{ schedules: number }]>`
      select count(*)::int as schedules from grant_schedules where billing_id = ${record.id} and deleted_at is null`;
    if (schedules >= MOST_SCHEDULES) throw new ApiError('grant_schedule_limit_reached');

    const { teamId, tokenId } = caller;
    const first = Math.max(0, periodAt({ every: body.every, timezone: zone, anchorMs: anchorAt }, atMs));
    const [row] = await sql<[ScheduleRow]>`
      insert into grant_schedules (id, team_id, billing_id, amount_micros, every, timezone, anchor_at, ends_at, priority, name,
                                   roll_max_micros, next_period, token_id, request_id)
      values (${newId('sched')}, ${teamId}, ${record.id}, ${amountMicros}, ${body.every}, ${zone}, ${anchorAt}, ${endsAt},
              ${body.priority ?? 50}, ${body.name ?? null}, ${rollMaxMicros}, ${first}, ${tokenId}, ${requestId})
      returning ${scheduleColumns(sql)}`;
    await makePeriods(sql, row, { teamId, tokenId, requestId }, atMs, { limited: true });
    changed('billing', record.id, record.shard);
    const made = presentSchedule(row);
    audit('grant_schedule', row.id, undefined, made);
    return { grantSchedule: made };
  },
});

function timesOf(body: { anchorAt?: number; endsAt?: number; timezone?: string }, nowMs: number) {
  const { anchorAt = nowMs, endsAt = null, timezone: zone = 'UTC' } = body;
  if (!isTimezone(zone)) throw invalidField('/timezone', 'must be the name of a time zone, such as Europe/Berlin');
  if (anchorAt < 0 || anchorAt > LAST_INSTANT) throw invalidField('/anchorAt', 'must be in Unix milliseconds');
  if (endsAt !== null && (endsAt <= Math.max(anchorAt, nowMs) || endsAt > LAST_INSTANT))
    throw invalidField('/endsAt', 'must lie after anchorAt, and in the future, in Unix milliseconds');
  return { anchorAt, endsAt, zone };
}
