import type { IncomingMessage } from 'node:http';
import { parse } from 'node:querystring';
import type { Caller } from '../../shared/contract/caller.ts';
import { object } from '../../shared/contract/schema-kinds.ts';
import { bodyValidator, parameterValidator } from '../../shared/contract/validate.ts';
import { readJson } from '../../shared/http/read-json.ts';
import type { HoldCalls } from '../../shared/verification/hold-calls.ts';
import {
  captureOperation,
  extendOperation,
  HOLD_BODY_LIMIT,
  releaseOperation,
} from '../../shared/verification/hold-operations.ts';

export const holdOperations = [captureOperation, releaseOperation, extendOperation] as const;

const readNoQuery = parameterValidator(object({}));

/** Whether a path is one of the operations on holds. */
export function isOfHolds(path: string): boolean {
  return holdOperations.some((one) => one.path === path);
}

/** Answers an authenticated request that captures, releases or extends a hold. */
export function makeHoldAnswers(holds: HoldCalls) {
  const readCapture = bodyValidator(captureOperation.body);
  const readRelease = bodyValidator(releaseOperation.body);
  const readExtension = bodyValidator(extendOperation.body);
  const answers: Record<string, (caller: Caller, body: unknown) => Promise<string>> = {
    [captureOperation.path]: (caller, body) => holds.capture(caller, readCapture(body)),
    [releaseOperation.path]: (caller, body) => holds.release(caller, readRelease(body)),
    [extendOperation.path]: (caller, body) => holds.extend(caller, readExtension(body)),
  };

  return async function settleHold(request: IncomingMessage, path: string, caller: Caller) {
    const body: unknown = await readJson(request, HOLD_BODY_LIMIT);
    readNoQuery({ ...parse(request.url!.slice(path.length + 1)) });
    return { status: 200, type: 'application/json', text: await answers[path]!(caller, body) };
  };
}
