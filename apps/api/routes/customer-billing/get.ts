import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing, externalMeterId } from '../../../../shared/contract/schemas.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { billingColumns, presentBilling, type BillingRow } from '../../resources/billings/billings.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/customer-billing',
  tag: 'Customer billing',
  operationId: 'getBillingOfMeter',
  summary: "Get the billing record of a workspace's external meter",
  description: 'Finds the billing record by the workspace and your own id of the meter.',
  permission: 'billing:read',
  query: object({ workspaceId: id('workspace'), externalMeterId }),
  response: object({ billing }),
  errors: ['workspace_forbidden', 'billing_not_found'],

  async handle({ sql, query, caller, redis }) {
    await requireWorkspace(sql, caller, query.workspaceId);
    const [row] = await sql<BillingRow[]>`
      select ${billingColumns(sql)} from billing_records
      where team_id = ${caller.teamId} and workspace_id = ${query.workspaceId}
        and external_meter_id = ${query.externalMeterId}`;
    if (!row) throw new ApiError('billing_not_found');
    return { billing: await presentBilling(redis, row) };
  },
});
