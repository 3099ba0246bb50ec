import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing } from '../../../../shared/contract/schemas.ts';
import { hideSecrets } from '../../../../shared/values/secrets.ts';
import { accountOf } from '../../sync/accounts.ts';
import { presentAmounts, refuseDeletedWorkspace, requireBilling } from '../../resources/billings/billings.ts';
import { countBegun } from '../../resources/grants/classes.ts';
import { readHeard } from '../../resources/grants/heard.ts';
import { coveredOf, voidGrant } from '../../resources/grants/voids.ts';
import {
  endOf,
  grant,
  grantPresenter,
  grantSettings,
  numbersBy,
  requireFewEnded,
  requireGrant,
  voidReason,
} from '../../resources/grants/grants.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'post',
  path: '/api/v1/customer-billing/{bid}/grant/{gid}/void',
  tag: 'Customer billing',
  operationId: 'voidGrant',
  summary: 'Void a grant: what is left of it is gone at once',
  description:
    'What was used stays used, and what open holds need of it stays reserved for them. A grant that has yet to begin never counts. Voiding it again changes nothing.',
  permission: 'billing:write',
  writes: true,
  params: object({ bid: id('billing record'), gid: id('grant') }),
  body: object({ reason: voidReason }),
  response: object({ grant, billing }),
  errors: ['billing_not_found', 'grant_not_found', 'workspace_deleted', 'grant_expired', 'grant_ended_limit_reached'],

  async handle({ sql, params, body, caller, changed, audit, redis, requestId }) {
    const record = await requireBilling(sql, caller, params.bid, { lock: true });
    await refuseDeletedWorkspace(sql, record);
    const account = accountOf(record, await readHeard(redis, record));
    const { balance } = account;
    await countBegun(sql, record, balance.atMs);
    const before = await requireGrant(sql, record, params.gid);
    const present = grantPresenter(record.id, account);
    const amounts = { ...balance, totalMicros: balance.totalMicros ?? record.totalMicros };
    if (before.voidedAt !== null) return { grant: present(before), billing: presentAmounts(record, amounts) };
    if (endOf(before) <= balance.atMs) throw new ApiError('grant_expired');
    if (before.hasBegun) requireFewEnded(account);

    const row = { ...before, voidedAt: balance.atMs, voidReason: hideSecrets(body.reason) };
    let expiredMicros = balance.expiredMicros ?? 0;
    changed('billing', record.id, record.shard);
    const adjustmentId = await voidGrant(sql, record, row, { ...caller, requestId, atMs: balance.atMs });
    changed('adjustment', adjustmentId, record.shard);
    if (before.hasBegun) {
      // As it will be once it is in force, which it is with the answer.
      const { usedMicros, leftMicros } = numbersBy(account)(before);
      row.usedMicros = usedMicros;
      row.heldMicros = coveredOf(account, before, leftMicros);
      expiredMicros += leftMicros - row.heldMicros;
    }
    audit('grant', row.id, grantSettings(record.id, before), grantSettings(record.id, row));
    const after = await requireBilling(sql, caller, record.id);
    return { grant: present(row), billing: presentAmounts(after, { ...amounts, expiredMicros }) };
  },
});
