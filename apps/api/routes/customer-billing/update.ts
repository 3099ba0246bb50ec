import { Type } from 'typebox';
import { credits, id, nullable, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing } from '../../../../shared/contract/schemas.ts';
import {
  billingColumns,
  billingSettings,
  creditsIn,
  presentBilling,
  refuseDeletedWorkspace,
  requireBilling,
  type BillingRow,
} from '../../resources/billings.ts';
import { set } from '../../resources/patch.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'patch',
  path: '/api/v1/customer-billing/{bid}',
  tag: 'Customer billing',
  operationId: 'updateBilling',
  summary: 'Change whether a billing record allows overages, and its spend cap',
  description:
    'Sets what happens at the end of the credits: whether use may go on as overage, and up to which cap. It is in force before the answer.',
  permission: 'billing:write',
  writes: true,
  params: object({ bid: id('billing record') }),
  body: object({
    allowOverages: Type.Optional(Type.Boolean({ description: 'whether use may go on beyond totalCredits' })),
    spendCap: Type.Optional(nullable(credits('most that may be used; null for no cap'))),
  }),
  response: object({ billing }),
  errors: ['billing_not_found', 'workspace_deleted'],

  async handle({ sql, params, body, caller, changed, audit, redis }) {
    const before = await requireBilling(sql, caller, params.bid, { lock: true });
    await refuseDeletedWorkspace(sql, before);
    const { allowOverages, spendCap } = body;
    const spendCapMicros = typeof spendCap === 'string' ? creditsIn('spendCap', spendCap) : spendCap;
    const [row] = await sql<[BillingRow]>`
      update billing_records set ${set(sql, { allowOverages, spendCapMicros })}
      where id = ${before.id}
      returning ${billingColumns(sql)}`;
    changed('billing', row.id, row.shard);
    audit('billing', row.id, billingSettings(before), billingSettings(row));
    return { billing: await presentBilling(redis, row) };
  },
});
