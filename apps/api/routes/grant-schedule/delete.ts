import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { refuseDeletedWorkspace, requireBilling } from '../../resources/billings/billings.ts';
import { countBegun } from '../../resources/grants/classes.ts';
import { grantSchedule, lockSchedule, presentSchedule } from '../../resources/grants/schedules.ts';
import { voidPeriods } from '../../resources/grants/voids.ts';
import { readAccount } from '../../sync/accounts.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'delete',
  path: '/api/v1/customer-billing/{bid}/grant-schedule/{sid}',
  tag: 'Customer billing',
  operationId: 'deleteGrantSchedule',
  summary: 'Delete a grant schedule: no further period begins',
  description: 'The grant of the running period keeps its end and its rollover; those to come are voided.',
  permission: 'billing:write',
  writes: true,
  params: object({ bid: id('billing record'), sid: id('grant schedule') }),
  response: object({ grantSchedule }),
  errors: ['billing_not_found', 'grant_schedule_not_found', 'workspace_deleted'],

  async handle({ sql, params, caller, changed, audit, redis, requestId }) {
    const record = await requireBilling(sql, caller, params.bid, { lock: true });
    await refuseDeletedWorkspace(sql, record);
    const schedule = await lockSchedule(sql, record, params.sid);
    const { atMs } = (await readAccount(redis, record)).balance;
    await countBegun(sql, record, atMs);
    await sql`update grant_schedules set deleted_at = now() where id = ${schedule.id}`;
    changed('billing', record.id, record.shard);
    for (const id of await voidPeriods(sql, record, schedule.id, { ...caller, requestId, atMs }))
      changed('adjustment', id, record.shard);
    const gone = presentSchedule(schedule);
    audit('grant_schedule', schedule.id, gone, undefined);
    return { grantSchedule: gone };
  },
});
