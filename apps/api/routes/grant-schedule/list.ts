import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { requireBilling } from '../../resources/billings/billings.ts';
import { grantSchedule, presentSchedule, scheduleColumns, type ScheduleRow } from '../../resources/grants/schedules.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}/grant-schedules',
  tag: 'Customer billing',
  operationId: 'listGrantSchedules',
  summary: 'List the grant schedules of a billing record, oldest first',
  description: 'Those that were deleted are not among them.',
  permission: 'billing:read',
  params: object({ bid: id('billing record') }),
  query: object(pageParameters),
  response: object({ grantSchedules: pageItems(grantSchedule), nextCursor }),
  errors: ['billing_not_found'],

  async handle({ sql, params, query, caller }) {
    const record = await requireBilling(sql, caller, params.bid);
    const read = (after: string, take: number) => sql<ScheduleRow[]>`
      select ${scheduleColumns(sql)} from grant_schedules
      where billing_id = ${record.id} and deleted_at is null and id > ${after} order by id limit ${take}`;
    const { items, next } = await readPage(query, `schedules of ${record.id}`, read, presentSchedule);
    return { grantSchedules: items, ...next };
  },
});
