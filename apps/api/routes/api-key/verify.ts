import {
  captureOperation,
  extendOperation,
  releaseOperation,
} from '../../../../shared/verification/hold-operations.ts';
import { cancelOperation, verifyOperation, verifyBatchOperation } from '../../../../shared/verification/operation.ts';
import { readPatience } from '../../../../shared/verification/patience.ts';
import { shared } from '../../http/route.ts';

export const verifyKey = shared(verifyOperation, async ({ verify, caller, body, clientAddress, header, clock }) => {
  const idempotencyKey = header('idempotency-key');
  const patience = readPatience(header('x-keytally-timeout-ms'), clock.monotonic());
  return (await verify({ caller, body, clientAddress, idempotencyKey, patience })).body;
});

export const verifyKeys = shared(verifyBatchOperation, async ({ verifyBatch, body: { verifications }, ...call }) => {
  const { caller, clientAddress, requestId, header, clock } = call;
  const patience = readPatience(header('x-keytally-timeout-ms'), clock.monotonic());
  return verifyBatch({ caller, verifications, clientAddress, requestId, header, patience });
});

export const cancelVerification = shared(cancelOperation, async ({ cancel, caller, body }) => cancel(caller, body));

export const captureHold = shared(captureOperation, async ({ holds, caller, body }) => holds.capture(caller, body));

export const releaseHold = shared(releaseOperation, async ({ holds, caller, body }) => holds.release(caller, body));

export const extendHold = shared(extendOperation, async ({ holds, caller, body }) => holds.extend(caller, body));
