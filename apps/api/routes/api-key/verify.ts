import { TextAnswer } from '../../../../shared/contract/route.ts';
import { verifyOperation } from '../../../../shared/verification/operation.ts';
import { route } from '../../http/route.ts';

export default route({
  ...verifyOperation,

  async handle({ verify, caller, body, clientAddress, header }) {
    const decision = await verify({ caller, body, clientAddress, idempotencyKey: header('idempotency-key') });
    return new TextAnswer('application/json', decision.body);
  },
});
