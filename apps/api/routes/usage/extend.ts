import { TextAnswer } from '../../../../shared/contract/route.ts';
import { extendOperation } from '../../../../shared/verification/hold-operations.ts';
import { route } from '../../http/route.ts';

export default route({
  ...extendOperation,

  async handle({ holds, caller, body }) {
    return new TextAnswer('application/json', await holds.extend(caller, body));
  },
});
