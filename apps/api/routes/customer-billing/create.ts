import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { alerts } from '../../../../shared/contract/alerts.ts';
import { checkLimits, limits } from '../../../../shared/contract/limits.ts';
import { credits, id, nullable, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing, externalMeterId, warnings } from '../../../../shared/contract/schemas.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { alertsValue, alertWarnings } from '../../resources/billings/alerts.ts';
import { billingSettings, creditsIn, insertBilling, presentBilling } from '../../resources/billings/billings.ts';
import { limitsValue } from '../../resources/keys/keys.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'post',
  path: '/api/v1/customer-billing',
  tag: 'Customer billing',
  operationId: 'createBilling',
  summary: "Create the billing record of a workspace's external meter",
  description: 'Makes the record that verifications of keys with the same external meter are debited to.',
  permission: 'billing:write',
  status: 201,
  writes: true,
  grows: true,
  body: object({
    workspaceId: id('workspace'),
    externalMeterId,
    totalCredits: Type.Optional(credits('initial credits', { default: '0' })),
    allowOverages: Type.Optional(
      Type.Boolean({ default: false, description: 'whether use may go on beyond totalCredits' }),
    ),
    spendCap: Type.Optional(credits('most that may be used')),
    limits: Type.Optional(limits),
    alerts: Type.Optional(nullable(alerts)),
  }),
  response: object({ billing, warnings: Type.Optional(warnings) }),
  errors: ['workspace_forbidden', 'billing_exists'],

  async handle({ sql, body, caller, changed, audit, redis }) {
    await requireWorkspace(sql, caller, body.workspaceId, { hold: true });
    checkLimits('limits', body.limits);
    const { workspaceId, externalMeterId, totalCredits = '0', allowOverages = false, spendCap } = body;
    const row = await insertBilling(sql, caller, {
      workspaceId,
      externalMeterId,
      totalMicros: creditsIn('totalCredits', totalCredits),
      allowOverages,
      spendCapMicros: spendCap === undefined ? null : creditsIn('spendCap', spendCap),
      limits: limitsValue(sql, body.limits),
      alerts: alertsValue(sql, 'alerts', body.alerts),
    });
    if (!row) throw new ApiError('billing_exists');
    changed('billing', row.id, row.shard);
    audit('billing', row.id, undefined, billingSettings(row));
    return { billing: await presentBilling(redis, row), ...alertWarnings(row) };
  },
});
