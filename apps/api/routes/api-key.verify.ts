import { TextAnswer } from '../../../shared/route.ts';
import { verifyOperation } from '../../../shared/verify.ts';
import { route } from '../route.ts';

export default route({
  ...verifyOperation,

  async handle({ verify, caller, body, clientAddress, header }) {
    const decision = await verify({ caller, body, clientAddress, idempotencyKey: header('idempotency-key') });
    return new TextAnswer('application/json', decision.body);
  },
});
