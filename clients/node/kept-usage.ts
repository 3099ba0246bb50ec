import type { Keytally } from './client.ts';
import { clockOf } from './clock.ts';
import type { Contract } from './contract.ts';
import { isPassing, KeytallyError, mayBeDebited } from './error.ts';
import { unknownOption } from './option-names.ts';
import type { CallOptions, WatchedCallOptions } from './send.ts';
import type { Status, Verification } from './status.ts';
import { callBack } from './callback.ts';

export type VerifyInput = Contract['post /api/v1/api-key/verify']['input'];
/** A verification without an answer. `sentAtMs`, by the client's clock, is set once keytally may have debited it. */
export type KeptCall = { input: VerifyInput; idempotencyKey: string; sentAtMs?: number };
type Lost = Exclude<Status, 'VALID'> | 'DOUBTFUL' | KeytallyError;

export type KeptUsageOptions = {
  /**
   * Called with usage that passed and is sent no more, and why: the status or the error with which keytally refused it, or
   * `DOUBTFUL` where an earlier attempt may have been debited, and keytally can no longer tell.
   */
  onLost: (call: VerifyInput, why: Lost) => void;
  /** How many calls may be kept; beyond that, requests are refused. Default 10,000. */
  atMost?: number;
  /** Time between two attempts to reach keytally; default 1 s. */
  pauseMs?: number;
};

export type KeptUsage = {
  readonly size: number;
  /** Whether nobody of keytally answered when last asked: until it is back, requests do not wait for it. */
  readonly away: boolean;
  /** Keeps a call; false if there is no room for it. `wasAnswered`: keytally itself could not decide it, and is not away. */
  keep(call: KeptCall, wasAnswered?: boolean): boolean;
  /** Sends the kept calls again, and gives how many are left. Call it before the process ends. */
  flush(): Promise<number>;
};

// Less than the 60 s of an Idempotency-Key, after which a call would be debited again: also with the last of its repetitions.
const REPEATABLE_MS = 50_000;
const LONGEST_ATTEMPT_MS = 9_000;
// As many as leave in one request.
const TOGETHER = 100;

/** Keeps, in memory, the usage of requests that passed while keytally was unavailable, and sends it again until it is decided. */
export function keepUsage(client: Keytally, options: KeptUsageOptions): KeptUsage {
  const unknown = unknownOption<KeptUsageOptions>(options, { onLost: true, atMost: true, pauseMs: true });
  if (unknown) throw new TypeError(`keepUsage(): ${unknown}`);
  const { onLost, atMost = 10_000, pauseMs = 1_000 } = options;
  const clock = clockOf(client);
  const calls = new Set<KeptCall>();
  let sending: Promise<void> | undefined;
  let stopTimer: (() => void) | undefined;

  function plan(): void {
    // In the background: `flush` is for the end of the process.
    if (calls.size > 0 || kept.away) stopTimer ??= clock.after(pauseMs, () => void kept.flush(), true);
  }

  async function sendAll(): Promise<void> {
    // First, since a call that was sent may be sent again for a minute only.
    const isReady = await client.ready();
    if (isReady) kept.away = false;
    const waiting = [...calls];
    while (waiting.length > 0)
      await Promise.all(waiting.splice(0, TOGETHER).map((call) => settle(call, isReady && !kept.away)));
  }

  async function settle(call: KeptCall, maySend: boolean): Promise<void> {
    const isTooOld = call.sentAtMs !== undefined && clock.now() - call.sentAtMs >= REPEATABLE_MS;
    const outcome = isTooOld ? 'DOUBTFUL' : maySend ? await outcomeOf(call) : undefined;
    if (outcome) calls.delete(call);
    if (outcome && outcome !== 'VALID') callBack('onLost', onLost, call.input, outcome);
  }

  /** Sends a call; gives `undefined` where it is not decided now. */
  async function outcomeOf(call: KeptCall): Promise<Lost | 'VALID' | undefined> {
    const refused = (why: Lost) => (call.sentAtMs === undefined ? why : 'DOUBTFUL');
    try {
      const { status } = await sendKept(client, call, { timeoutMs: LONGEST_ATTEMPT_MS });
      if (status === 'RATE_LIMITED') return void delete call.sentAtMs;
      // Before these three alone keytally looks for what an earlier attempt debited.
      return status === 'VALID' || status === 'USAGE_LIMITED' ? status : refused(status);
    } catch (error) {
      if (!(error instanceof KeytallyError))
        return new KeytallyError(`the call cannot be sent: ${String(error)}`, { status: 0, code: 0 }, { cause: error });
      kept.away ||= error.code === 0;
      return error.code === 0 || isPassing(error) ? undefined : refused(error);
    }
  }

  const kept = {
    away: false,
    get size(): number {
      return calls.size;
    },
    keep(call: KeptCall, wasAnswered = false): boolean {
      kept.away ||= !wasAnswered;
      const hasRoom = calls.size < atMost;
      if (hasRoom) calls.add(call);
      plan();
      return hasRoom;
    },
    async flush(): Promise<number> {
      await sending;
      stopTimer?.();
      sending ??= sendAll().finally(() => {
        sending = stopTimer = undefined;
        plan();
      });
      await sending;
      return calls.size;
    },
  };
  return kept;
}

/** Verifies a call, and notes when keytally may have debited it. */
export async function sendKept(client: Keytally, call: KeptCall, options: CallOptions): Promise<Verification> {
  const sentAtMs = clockOf(client).now();
  const watched: WatchedCallOptions = {
    ...options,
    idempotencyKey: call.idempotencyKey,
    onFailure(error) {
      if (mayBeDebited(error)) call.sentAtMs ??= sentAtMs;
    },
  };
  return client.verify(call.input, watched);
}
