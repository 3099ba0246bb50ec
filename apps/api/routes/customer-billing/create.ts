import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import { alerts } from '../../../../shared/contract/alerts.ts';
import { checkLimits, limits } from '../../../../shared/contract/limits.ts';
import { credits, id, nullable, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing, externalMeterId } from '../../../../shared/contract/schemas.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { alertsValue } from '../../resources/billings/alerts.ts';
import {
  billingColumns,
  billingSettings,
  creditsIn,
  presentBilling,
  type BillingRow,
} from '../../resources/billings/billings.ts';
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
  response: object({ billing }),
  errors: ['workspace_forbidden', 'billing_exists'],

  async handle({ sql, body, caller, changed, audit, redis }) {
    await requireWorkspace(sql, caller, body.workspaceId, { hold: true });
    checkLimits('limits', body.limits);
    const { workspaceId, externalMeterId, totalCredits = '0', allowOverages = false, spendCap } = body;
    // Of two concurrent requests, the second waits for the first one's commit and then finds the meter taken.
    const [row] = await sql<BillingRow[]>`
      insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages, spend_cap_micros,
                                   limits, alerts)
      values (${newId('bill')}, ${caller.teamId}, ${workspaceId}, ${externalMeterId}, ${meterShard(workspaceId, externalMeterId)},
              ${creditsIn('totalCredits', totalCredits)}, ${allowOverages},
              ${spendCap === undefined ? null : creditsIn('spendCap', spendCap)},
              ${limitsValue(sql, body.limits) ?? null}, ${alertsValue(sql, 'alerts', body.alerts) ?? null})
      on conflict (workspace_id, external_meter_id) do nothing
      returning ${billingColumns(sql)}`;
    if (!row) throw new ApiError('billing_exists');
    changed('billing', row.id, row.shard);
    audit('billing', row.id, undefined, billingSettings(row));
    return { billing: await presentBilling(redis, row) };
  },
});
