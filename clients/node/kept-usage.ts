import type { Keytally } from './client.ts';
import { clockOf } from './clock.ts';
import type { Contract, Decision } from './contract.ts';
import { isPassing, KeytallyError } from './error.ts';
import { callBack, unknownOption } from './given.ts';

export type VerifyInput = Contract['post /api/v1/api-key/verify']['input'];
/** A verification without an answer. `sentAtMs`, by the client's clock, is set once keytally may have debited it. */
export type KeptCall = { input: VerifyInput; idempotencyKey: string; sentAtMs?: number };
export type Status = Decision['status'];
type Lost = Exclude<Status, 'VALID'> | 'DOUBTFUL' | KeytallyError;

export type KeptUsageOptions = {
  /**
   * Called with usage that passed and is sent no more, and why: the status or the error with which keytally refused it, or
   * `DOUBTFUL` where an earlier attempt may have been debited, and keytally can no longer tell.
   */
  onLost: (call: VerifyInput, why: Lost) => void;
  /** How many calls may be kept; beyond that, requests are refused. Default 10,000. */
  atMost?: number;
};

export type KeptUsage = {
  readonly size: number;
  /** Whether nobody of keytally answered when last asked: until it is back, requests do not wait for it. */
  readonly away: boolean;
  /** Keeps a call; false if there is no room for it. `wasAnswered`: keytally itself could not decide it, and is not away. */
  keep(call: KeptCall, wasAnswered?: boolean): boolean;
  /** Waits until the kept calls are decided, at most for so long (default 10 s), and gives how many are left. Call it before the process ends. */
  flush(timeoutMs?: number): Promise<number>;
};

// Less than the 60 s of an Idempotency-Key, after which a call would be debited again: also with the last of its repetitions.
const REPEATABLE_MS = 50_000;
const LONGEST_ATTEMPT_MS = 9_000;
const PAUSE_MS = 1_000;
const FLUSH_MS = 10_000;

/** Keeps, in memory, the usage of requests that passed while keytally was unavailable, and sends it again until it is decided. */
export function keepUsage(client: Keytally, options: KeptUsageOptions): KeptUsage {
  const unknown = unknownOption<KeptUsageOptions>(options, { onLost: true, atMost: true });
  if (unknown) throw new TypeError(`keepUsage(): ${unknown}`);
  const { onLost, atMost = 10_000 } = options;
  const clock = clockOf(client);
  const calls = new Set<KeptCall>();
  let sending: Promise<void> | undefined;

  async function sendAll(): Promise<void> {
    while (calls.size > 0) {
      // In the background: `flush` is for the end of the process.
      await new Promise<void>((resolve) => void clock.after(PAUSE_MS, resolve, true));
      kept.away &&= !(await client.ready());
      if (!kept.away) await Promise.all([...calls].map(settle));
    }
    sending = undefined;
  }

  async function settle(call: KeptCall): Promise<void> {
    const outcome = await outcomeOf(call);
    if (outcome === undefined) return;
    calls.delete(call);
    if (outcome !== 'VALID') callBack('onLost', onLost, call.input, outcome);
  }

  /** Sends a call; gives `undefined` where it is not decided now. */
  async function outcomeOf(call: KeptCall): Promise<Lost | 'VALID' | undefined> {
    const { input, idempotencyKey } = call;
    const sentAtMs = clock.now();
    if (call.sentAtMs !== undefined && sentAtMs - call.sentAtMs >= REPEATABLE_MS) return 'DOUBTFUL';
    const refused = (why: Lost) => (call.sentAtMs === undefined ? why : 'DOUBTFUL');
    try {
      const { status } = await client.verify(input, { idempotencyKey, timeoutMs: LONGEST_ATTEMPT_MS });
      if (status === 'RATE_LIMITED') return void delete call.sentAtMs;
      // Before these three alone keytally looks for what an earlier attempt debited.
      return status === 'VALID' || status === 'USAGE_LIMITED' ? status : refused(status);
    } catch (error) {
      if (!(error instanceof KeytallyError))
        return new KeytallyError(`the call cannot be sent: ${String(error)}`, { status: 0, code: 0 }, { cause: error });
      if (error.mayBeDebited) call.sentAtMs ??= sentAtMs;
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
      if (calls.size >= atMost) return false;
      calls.add(call);
      sending ??= sendAll();
      return true;
    },
    async flush(timeoutMs = FLUSH_MS): Promise<number> {
      let stop = () => {};
      const late = new Promise<void>((resolve) => void (stop = clock.after(timeoutMs, resolve)));
      await Promise.race([sending, late]);
      stop();
      return calls.size;
    },
  };
  return kept;
}
