import { TextAnswer } from '../../../../shared/contract/route.ts';
import { cancelOperation } from '../../../../shared/verification/cancel-operation.ts';
import { route } from '../../http/route.ts';

export default route({
  ...cancelOperation,

  async handle({ cancel, caller, body }) {
    return new TextAnswer('application/json', await cancel(caller, body));
  },
});
