import { TextAnswer } from '../../../../shared/contract/route.ts';
import { verifyBatchOperation } from '../../../../shared/verification/operation.ts';
import { readPatience } from '../../../../shared/verification/patience.ts';
import { route } from '../../http/route.ts';

export default route({
  ...verifyBatchOperation,

  async handle({ verifyBatch, caller, body, clientAddress, requestId, header, clock }) {
    const { verifications } = body;
    const patience = readPatience(header('x-keytally-timeout-ms'), clock.monotonic());
    const asked = { caller, verifications, clientAddress, requestId, header, patience };
    return new TextAnswer('application/json', await verifyBatch(asked));
  },
});
