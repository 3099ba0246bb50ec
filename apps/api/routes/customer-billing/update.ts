import { noteCreditLooks } from '../../../../shared/books/credit-states.ts';
import { Type } from 'typebox';
import { checkLimits, limits } from '../../../../shared/contract/limits.ts';
import { alerts } from '../../../../shared/contract/alerts.ts';
import { credits, id, nullable, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing, warnings } from '../../../../shared/contract/schemas.ts';
import { alertsValue, alertWarnings } from '../../resources/billings/alerts.ts';
import {
  billingColumns,
  billingSettings,
  creditsIn,
  presentBilling,
  refuseDeletedWorkspace,
  requireBilling,
  type BillingRow,
} from '../../resources/billings/billings.ts';
import { limitsValue } from '../../resources/keys/keys.ts';
import { set } from '../../resources/patch.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'patch',
  path: '/api/v1/customer-billing/{bid}',
  tag: 'Customer billing',
  operationId: 'updateBilling',
  summary: 'Change whether a billing record allows overages, its spend cap, its limits and its alerts',
  description:
    'Sets what happens at the end of the credits: whether use may go on as overage, and up to which cap, and which alerts are told. It is in force before the answer.',
  permission: 'billing:write',
  writes: true,
  params: object({ bid: id('billing record') }),
  body: object({
    allowOverages: Type.Optional(Type.Boolean({ description: 'whether use may go on beyond totalCredits' })),
    spendCap: Type.Optional(nullable(credits('most that may be used; null for no cap'))),
    limits: Type.Optional(nullable(limits)),
    alerts: Type.Optional(nullable(alerts)),
  }),
  response: object({ billing, warnings: Type.Optional(warnings) }),
  errors: ['billing_not_found', 'workspace_deleted', 'quota_exceeded'],

  async handle({ sql, params, body, caller, changed, audit, redis }) {
    const before = await requireBilling(sql, caller, params.bid, { lock: true });
    await refuseDeletedWorkspace(sql, before);
    const { allowOverages, spendCap, limits } = body;
    checkLimits('limits', limits);
    const spendCapMicros = typeof spendCap === 'string' ? creditsIn('spendCap', spendCap) : spendCap;
    const [row] = await sql<[BillingRow]>`
      update billing_records set ${set(sql, { allowOverages, spendCapMicros, limits: limitsValue(sql, limits), alerts: alertsValue(sql, 'alerts', body.alerts) })}
      where id = ${before.id}
      returning ${billingColumns(sql)}`;
    changed('billing', row.id, row.shard);
    // What it may be used for may have become more, or less than what is used.
    await noteCreditLooks(sql, [row.id]);
    audit('billing', row.id, billingSettings(before), billingSettings(row));
    return { billing: await presentBilling(redis, row), ...alertWarnings(row) };
  },
});
