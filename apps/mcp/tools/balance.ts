import { Type } from 'typebox';
import { amount, ids, instant, meter, nextCursor, cursor, presentRecord, record, timeOf } from '../schemas.ts';
import { recordOf } from '../records.ts';
import { shown, tool, withUntrusted } from '../tool.ts';

const MOST = 50;

const states = ['ACTIVE', 'PENDING', 'USED_UP', 'EXPIRED', 'VOIDED'] as const;

const grant = withUntrusted(
  {
    grantId: Type.String(),
    state: Type.Enum([...states]),
    credits: amount,
    usedCredits: amount,
    expiredCredits: amount,
    remainingCredits: amount,
    priority: Type.Integer({ description: 'grants of the lowest number are drawn first' }),
    beginsAt: instant,
    expiresAt: Type.Optional(instant),
  },
  { name: Type.Optional(Type.String()), voidReason: Type.Optional(Type.String()) },
);

export default tool({
  name: 'balance',
  title: 'Balance and grants of a billing record',
  description: `Gives the credits of a billing record as they are now (total, used, held, expired, available), whether it may go beyond them, its limits, and its grants in one state, by default those that are drawn from. Give billingId, or workspaceId with externalMeterId.`,
  input: Type.Object({
    billingId: Type.Optional(ids.record),
    workspaceId: Type.Optional(ids.workspace),
    externalMeterId: Type.Optional(meter),
    state: Type.Optional(Type.Enum([...states], { description: 'which grants; default ACTIVE' })),
    cursor,
  }),
  output: Type.Object({ record, grants: Type.Array(grant), nextCursor }),

  async run({ state = 'ACTIVE', cursor, ...which }, reader, options) {
    const billing = await recordOf(which, reader, options);
    const list = { bid: billing.id, state, limit: MOST, cursor };
    const { grants, nextCursor } = await reader.grants.list(list, options);
    const limit = billing.spendCap === undefined ? '' : `, spend cap ${billing.spendCap}`;
    const more = nextCursor === undefined ? '' : ', and more: ask again with nextCursor as cursor';
    return {
      text: `${billing.availableCredits} credits available: ${billing.totalCredits} in all, ${billing.usedCredits} used, ${billing.heldCredits} held, ${billing.expiredCredits} expired; overages ${billing.allowOverages ? 'allowed' : 'not allowed'}${limit}. ${grants.length} grants that are ${state}${more}.`,
      data: {
        record: presentRecord(billing),
        grants: grants.map(({ id, name, reason, beginsAt, expiresAt, ...one }) => ({
          grantId: id,
          state: one.state,
          credits: one.credits,
          usedCredits: one.usedCredits,
          expiredCredits: one.expiredCredits,
          remainingCredits: one.remainingCredits,
          priority: one.priority,
          beginsAt: timeOf(beginsAt),
          ...(expiresAt !== undefined && { expiresAt: timeOf(expiresAt) }),
          untrusted: {
            ...(name !== undefined && { name: shown(name) }),
            ...(reason !== undefined && { voidReason: shown(reason) }),
          },
        })),
        ...(nextCursor !== undefined && { nextCursor }),
      },
    };
  },
});
