import { TextAnswer } from '../../../../shared/contract/route.ts';
import {
  captureOperation,
  releaseOperation,
  extendOperation,
} from '../../../../shared/verification/hold-operations.ts';
import { route } from '../../http/route.ts';

export const captureHold = route({
  ...captureOperation,

  async handle({ holds, caller, body }) {
    return new TextAnswer('application/json', await holds.capture(caller, body));
  },
});

export const releaseHold = route({
  ...releaseOperation,

  async handle({ holds, caller, body }) {
    return new TextAnswer('application/json', await holds.release(caller, body));
  },
});

export const extendHold = route({
  ...extendOperation,

  async handle({ holds, caller, body }) {
    return new TextAnswer('application/json', await holds.extend(caller, body));
  },
});
