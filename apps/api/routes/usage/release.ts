import { TextAnswer } from '../../../../shared/contract/route.ts';
import { releaseOperation } from '../../../../shared/verification/hold-operations.ts';
import { route } from '../../http/route.ts';

export default route({
  ...releaseOperation,

  async handle({ holds, caller, body }) {
    return new TextAnswer('application/json', await holds.release(caller, body));
  },
});
