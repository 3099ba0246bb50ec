import { TextAnswer } from '../../../../shared/contract/route.ts';
import { captureOperation } from '../../../../shared/verification/hold-operations.ts';
import { route } from '../../http/route.ts';

export default route({
  ...captureOperation,

  async handle({ holds, caller, body }) {
    return new TextAnswer('application/json', await holds.capture(caller, body));
  },
});
