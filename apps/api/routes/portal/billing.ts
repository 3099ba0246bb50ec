import { object } from '../../../../shared/contract/schema-kinds.ts';
import { billing } from '../../../../shared/contract/schemas.ts';
import { route } from '../../http/route.ts';
import { presentBilling } from '../../resources/billings/billings.ts';
import { portalOf, requirePortalBilling } from '../../resources/access/portals.ts';

export default route({
  method: 'get',
  path: '/api/v1/portal/billing',
  tag: 'Portal',
  operationId: 'getPortalBilling',
  summary: "Get the balance of the link token's billing record",
  description: "It shows while all keys of the record are the customer's. Limits and alerts are left out.",
  portal: 'session',
  response: object({ billing }),
  errors: ['billing_not_found'],

  async handle({ sql, caller, redis }) {
    const row = await requirePortalBilling(sql, portalOf(caller));
    return { billing: await presentBilling(redis, { ...row, limits: null, alerts: null }) };
  },
});
