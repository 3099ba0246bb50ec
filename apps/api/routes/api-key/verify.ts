import { TextAnswer } from '../../../../shared/contract/route.ts';
import { verifyOperation } from '../../../../shared/verification/operation.ts';
import { readPatience } from '../../../../shared/verification/patience.ts';
import { route } from '../../http/route.ts';

export default route({
  ...verifyOperation,

  async handle({ verify, caller, body, clientAddress, header, clock }) {
    const idempotencyKey = header('idempotency-key');
    const patience = readPatience(header('x-keytally-timeout-ms'), clock.monotonic());
    const decision = await verify({ caller, body, clientAddress, idempotencyKey, patience });
    return new TextAnswer('application/json', decision.body);
  },
});
