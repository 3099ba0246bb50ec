import { Type } from 'typebox';
import { amount, cursor, instant, nextCursor, recordFrom, record, text, timeOf, recordOf, which } from '../schemas.ts';
import { more, tool, withUntrusted } from '../tool.ts';

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
  { name: text, voidReason: text },
);

export default tool({
  name: 'balance',
  title: 'Balance and grants of a billing record',
  description: `Gives the credits of a billing record as they are now (total, used, held, expired, available), whether it may go beyond them, its limits, and its grants in one state, by default those that are drawn from. Give billingId, or workspaceId with externalMeterId.`,
  input: Type.Object({
    ...which,
    state: Type.Optional(Type.Enum([...states], { description: 'which grants; default ACTIVE' })),
    cursor,
  }),
  output: Type.Object({ record, grants: Type.Array(grant), nextCursor }),

  async run({ state = 'ACTIVE', cursor, ...one }, reader, options) {
    const billing = await recordOf(one, reader, options);
    const list = { bid: billing.id, state, limit: MOST, cursor };
    const { grants, nextCursor } = await reader.grants.list(list, options);
    const limit = billing.spendCap === undefined ? '' : `, spend cap ${billing.spendCap}`;
    return {
      text: `${billing.availableCredits} credits available: ${billing.totalCredits} in all, ${billing.usedCredits} used, ${billing.heldCredits} held, ${billing.expiredCredits} expired; overages ${billing.allowOverages ? 'allowed' : 'not allowed'}${limit}. ${grants.length} grants that are ${state}.${more(nextCursor)}`,
      data: {
        record: recordFrom(billing),
        grants: grants.map(({ id: grantId, reason: voidReason, beginsAt, expiresAt, ...grantOf }) => {
          return { ...grantOf, grantId, voidReason, beginsAt: timeOf(beginsAt), expiresAt: timeOf(expiresAt) };
        }),
        nextCursor,
      },
    };
  },
});
