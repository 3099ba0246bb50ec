import { Type } from 'typebox';
import { credits, instant, object } from '../../../../shared/contract/schema-kinds.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { creditsIn, lockBilling, requireBilling, someCreditsIn } from '../../resources/billings/billings.ts';
import { countBegun } from '../../resources/grants/classes.ts';
import { grantErrors, requireFewEnded } from '../../resources/grants/grants.ts';
import { addSchedule, grantSchedule, newPeriods, schedules } from '../../resources/grants/schedules.ts';
import { voidGrants } from '../../resources/grants/voids.ts';
import { readHeard } from '../../sync/accounts.ts';

const { priority, name, rollover } = grantSchedule.properties;

export const createGrantSchedule = route('post', '/api/v1/customer-billing/{bid}/grant-schedule', {
  summary: 'Grant credits to a billing record every day, week, month or year',
  description:
    'Makes a grant for the running period, which ends with it, and for each that follows. Periods are counted from the anchor in local time.',
  permission: 'billing:write',
  status: 201,
  grows: true,
  body: object({
    credits: credits('credits to grant for each period, above 0'),
    ...newPeriods,
    endsAt: Type.Optional(instant('no period begins at or after it; default never')),
    priority: Type.Optional(priority),
    name,
    rollover,
  }),
  response: object({ grantSchedule }),
  errors: ['workspace_deleted', 'grant_schedule_limit_reached', ...grantErrors],

  async handle({ sql, params, body, caller, changed, redis, requestId }) {
    const record = await lockBilling(sql, caller, params.bid);
    const amountMicros = someCreditsIn('credits', body.credits);
    const account = await readHeard(redis, record);
    requireFewEnded(account);
    const rollMaxMicros = body.rollover ? creditsIn('rollover/maxCredits', body.rollover.maxCredits) : null;
    const schedule = { ...body, amountMicros, rollMaxMicros };
    const { row } = await addSchedule(sql, record, schedule, { ...caller, requestId }, account.balance.atMs);
    changed({ resource: 'billing', id: record.id, shards: [record.shard] });
    return { grantSchedule: schedules.say(changed, { after: row }) };
  },
});

export const listGrantSchedules = listRoute(
  '/api/v1/customer-billing/{bid}/grant-schedules',
  'grantSchedules',
  grantSchedule,
  {
    summary: 'List the grant schedules of a billing record, oldest first',
    description: 'Those that were deleted are not among them.',
    permission: 'billing:read',

    async open({ sql, params, caller }) {
      const record = await requireBilling(sql, caller, params.bid);
      return schedules.list(sql, sql`billing_id = ${record.id} and deleted_at is null`);
    },
  },
);

export const deleteGrantSchedule = route('delete', '/api/v1/customer-billing/{bid}/grant-schedule/{sid}', {
  summary: 'Delete a grant schedule: no further period begins',
  description: 'The grant of the running period keeps its end and its rollover; those to come are voided.',
  permission: 'billing:write',
  response: object({ grantSchedule }),
  errors: ['workspace_deleted'],

  async handle({ sql, params, caller, changed, redis, requestId }) {
    const record = await lockBilling(sql, caller, params.bid);
    const schedule = await schedules.require(sql, params.sid, sql`billing_id = ${record.id} and deleted_at is null`, {
      alone: true,
    });
    const { atMs } = (await readHeard(redis, record)).balance;
    await countBegun(sql, record, atMs);
    await sql`update grant_schedules set deleted_at = now() where id = ${schedule.id}`;
    changed({ resource: 'billing', id: record.id, shards: [record.shard] });
    const toCome = sql`schedule_id = ${schedule.id} and before_micros is null`;
    const voids = { which: toCome, reason: 'its schedule was deleted' };
    for (const { adjustmentId } of await voidGrants(sql, record, voids, { ...caller, requestId, atMs }))
      changed({ resource: 'adjustment', id: adjustmentId, shards: [record.shard] });
    return { grantSchedule: schedules.say(changed, { before: schedule }) };
  },
});
