import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing } from '../../../../shared/contract/schemas.ts';
import { presentBilling, requireBilling } from '../../resources/billings/billings.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}',
  tag: 'Customer billing',
  operationId: 'getBilling',
  summary: 'Get a billing record by its id',
  description: 'Gives the credits that were bought and used, as exact decimal text.',
  permission: 'billing:read',
  params: object({ bid: id('billing record') }),
  response: object({ billing }),
  errors: ['billing_not_found'],

  async handle({ sql, params, caller, redis }) {
    return { billing: await presentBilling(redis, await requireBilling(sql, caller, params.bid)) };
  },
});
