import { Type } from 'typebox';
import { instant, named, object } from '../../../../shared/contract/schema-kinds.ts';
import { customerId } from '../../../../shared/contract/schemas.ts';
import { route } from '../../http/route.ts';
import { permissions } from '../../resources/access/link-tokens.ts';
import { findPortalBilling, portalOf } from '../../resources/access/portals.ts';

const portal = named(
  'Portal',
  object({
    customerId,
    permissions,
    hasBalance: Type.Boolean({
      description: 'whether it shows a balance: the link names a billing record, and all its keys are of the customer',
      examples: [true],
    }),
    expiresAt: instant('when it ends'),
  }),
);

export default route({
  method: 'get',
  path: '/api/v1/portal',
  tag: 'Portal',
  operationId: 'getPortal',
  summary: 'Get what the portal shows to its customer, and until when',
  description: 'A session of the portal sees what its link token stands for, and no more.',
  portal: 'session',
  response: object({ portal }),

  async handle({ sql, caller }) {
    const portal = portalOf(caller);
    const { customerId, mayRotate, expiresAt } = portal;
    const hasBalance = (await findPortalBilling(sql, portal)) !== undefined;
    return { portal: { customerId, permissions: mayRotate ? ['rotate' as const] : [], hasBalance, expiresAt } };
  },
});
