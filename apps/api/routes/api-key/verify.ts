import { TextAnswer } from '../../../../shared/contract/route.ts';
import { cancelOperation } from '../../../../shared/verification/cancel-operation.ts';
import { verifyOperation, verifyBatchOperation } from '../../../../shared/verification/operation.ts';
import { readPatience } from '../../../../shared/verification/patience.ts';
import { shared } from '../../http/route.ts';

export const verifyKey = shared(verifyOperation, async ({ verify, caller, body, clientAddress, header, clock }) => {
  const idempotencyKey = header('idempotency-key');
  const patience = readPatience(header('x-keytally-timeout-ms'), clock.monotonic());
  const decision = await verify({ caller, body, clientAddress, idempotencyKey, patience });
  return new TextAnswer('application/json', decision.body);
});

export const verifyKeys = shared(
  verifyBatchOperation,
  async ({ verifyBatch, caller, body, clientAddress, requestId, header, clock }) => {
    const { verifications } = body;
    const patience = readPatience(header('x-keytally-timeout-ms'), clock.monotonic());
    const asked = { caller, verifications, clientAddress, requestId, header, patience };
    return new TextAnswer('application/json', await verifyBatch(asked));
  },
);

export const cancelVerification = shared(cancelOperation, async ({ cancel, caller, body }) => {
  return new TextAnswer('application/json', await cancel(caller, body));
});
