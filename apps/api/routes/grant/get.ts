import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { readAccount } from '../../sync/accounts.ts';
import { requireBilling } from '../../resources/billings/billings.ts';
import { grant, grantPresenter, requireGrant } from '../../resources/grants/grants.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}/grant/{gid}',
  tag: 'Customer billing',
  operationId: 'getGrant',
  summary: 'Get a grant, with what of it was used, has expired and remains',
  description: 'First credits and refills are grants too: of priority 50, without an end.',
  permission: 'billing:read',
  params: object({ bid: id('billing record'), gid: id('grant') }),
  response: object({ grant }),
  errors: ['billing_not_found', 'grant_not_found', 'redis_unavailable'],

  async handle({ sql, params, caller, redis }) {
    const record = await requireBilling(sql, caller, params.bid);
    const row = await requireGrant(sql, record, params.gid);
    return { grant: grantPresenter(record.id, await readAccount(redis, record))(row) };
  },
});
