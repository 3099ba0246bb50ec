import { TextAnswer } from '../../../../shared/contract/route.ts';
import {
  captureOperation,
  releaseOperation,
  extendOperation,
} from '../../../../shared/verification/hold-operations.ts';
import { shared } from '../../http/route.ts';

export const captureHold = shared(captureOperation, async ({ holds, caller, body }) => {
  return new TextAnswer('application/json', await holds.capture(caller, body));
});

export const releaseHold = shared(releaseOperation, async ({ holds, caller, body }) => {
  return new TextAnswer('application/json', await holds.release(caller, body));
});

export const extendHold = shared(extendOperation, async ({ holds, caller, body }) => {
  return new TextAnswer('application/json', await holds.extend(caller, body));
});
