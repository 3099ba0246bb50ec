import { TextAnswer } from '../../../../shared/contract/route.ts';
import { verifyBatchOperation } from '../../../../shared/verification/operation.ts';
import { route } from '../../http/route.ts';

export default route({
  ...verifyBatchOperation,

  async handle({ verifyBatch, caller, body, clientAddress, requestId, header }) {
    const { verifications } = body;
    return new TextAnswer(
      'application/json',
      await verifyBatch({ caller, verifications, clientAddress, requestId, header }),
    );
  },
});
