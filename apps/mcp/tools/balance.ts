import { Type } from 'typebox';
import { choice, cursor, nextCursor, object, recordFrom, record, timeOf, recordOf, which } from '../schemas.ts';
import { more, tool } from '../tool.ts';

const MOST = 50;

const states = ['ACTIVE', 'PENDING', 'USED_UP', 'EXPIRED', 'VOIDED'] as const;

const credits = ['credits', 'usedCredits', 'expiredCredits', 'remainingCredits'] as const;
const grant = object(['grantId', 'state', ...credits, 'priority', 'beginsAt', 'expiresAt'], ['name', 'voidReason']);

export default tool({
  name: 'balance',
  title: 'Balance and grants of a billing record',
  description: `Gives the credits of a billing record as they are now (total, used, held, expired, available), whether it may go beyond them, its limits, and its grants in one state, by default those that are drawn from. Give billingId, or workspaceId with externalMeterId.`,
  input: Type.Object({ ...which, state: choice(states, 'which grants; default ACTIVE'), cursor }),
  output: Type.Object({ record, grants: Type.Array(grant), nextCursor }),

  async run({ state = 'ACTIVE', cursor, ...one }, reader) {
    const billing = await recordOf(one, reader);
    const list = { bid: billing.id, state, limit: MOST, cursor };
    const { grants, nextCursor } = await reader.grants.list(list);
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
