import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../runtime/clock.ts';
import type { CountCall } from '../auth/failed-authentications.ts';
import type { Caller } from '../contract/caller.ts';
import { asApiError, invalidField } from '../contract/errors.ts';
import { bodyValidator } from '../contract/validate.ts';
import type { LogFailure } from '../http/log-failures.ts';
import { bodyTooLarge } from '../http/read-json.ts';
import { batchedVerification, VERIFY_BODY_LIMIT } from './operation.ts';
import type { Verify, VerifyCall } from './verifier.ts';
import { MOST_PER_SCRIPT } from './waiting-calls.ts';

export type BatchCall = {
  caller: Caller;
  /** As they were sent. */
  verifications: readonly unknown[];
  clientAddress: string;
  requestId: string;
  /** The value of a header, by its lower-case name. */
  header(name: string): string | undefined;
} & Pick<VerifyCall, 'patience' | 'isGone'>;
/** Decides the verifications of a batch, and gives the answer as JSON. */
export type VerifyBatch = (call: BatchCall) => Promise<string>;

type One = { verification: unknown; mayBeTooLarge: boolean; since: number };
type Options = { verify: Verify; countCall: CountCall; logFailure: LogFailure; clock: Clock };

const TURN_MS = 0.25;
const readVerification = bodyValidator(batchedVerification);

/**
 * Decides each verification of a batch as if it had come alone: it is validated alone, takes a place and counts for its team
 * like any other call, and its failure is its own. A turn of the event loop begins those of one script, and fewer of costly
 * ones: other requests are served in between.
 */
export function makeVerifyBatch({ verify, countCall, logFailure, clock }: Options): VerifyBatch {
  return async function verifyBatch(batch) {
    const since = clock.monotonic();
    // It would silently protect nothing.
    if (batch.header('idempotency-key') !== undefined)
      throw invalidField('Idempotency-Key', 'belongs to a verification of the batch, as its idempotencyKey');
    // One verification may cost what a single one may, to check it too: that is bounded by its size.
    const mayBeTooLarge = Number(batch.header('content-length') ?? Infinity) > VERIFY_BODY_LIMIT;
    const answers: Promise<string>[] = [];
    let turnBegan = since;
    for (const [i, verification] of batch.verifications.entries()) {
      if (i > 0 && (i % MOST_PER_SCRIPT === 0 || clock.monotonic() - turnBegan > TURN_MS)) {
        await nextTurn();
        turnBegan = clock.monotonic();
      }
      answers.push(answerOf(i, batch, { verification, mayBeTooLarge, since }));
    }
    return `{"results":[${(await Promise.all(answers)).join()}]}`;
  };

  async function answerOf(i: number, batch: BatchCall, one: One): Promise<string> {
    const { caller, clientAddress, requestId, patience, isGone } = batch;
    const { verification, mayBeTooLarge, since } = one;
    try {
      // The first was counted as the request.
      if (i > 0) countCall(caller);
      if (mayBeTooLarge && isTooLarge(verification)) throw bodyTooLarge(VERIFY_BODY_LIMIT);
      const body = readVerification(verification);
      const { idempotencyKey } = body;
      return (await verify({ caller, body, clientAddress, idempotencyKey, since, patience, isGone })).body;
    } catch (thrown) {
      const error = asApiError(thrown);
      logFailure(error, requestId);
      const { code, message, details } = error;
      return JSON.stringify({ error: { code, message, details } });
    }
  }
}

function isTooLarge(verification: unknown): boolean {
  try {
    return Buffer.byteLength(JSON.stringify(verification)) > VERIFY_BODY_LIMIT;
  } catch {
    // Nested too deeply to be turned into text.
    return true;
  }
}
