import type { Keytally } from './client.ts';
import { KeytallyError } from './error.ts';
import type { Contract } from './contract.ts';
import type { Status } from './status.ts';

export type VerifyInput = Contract['post /api/v1/api-key/verify']['input'];
/** A verification that was not decided; `sentAtMs` where keytally may have debited it all the same. */
export type KeptCall = { input: VerifyInput; idempotencyKey: string; sentAtMs?: number };

export type KeptUsageOptions = {
  /**
   * Told of usage that is not debited: the key was refused after all (its status), the client (an error), or nobody can
   * say any more whether it was debited already (`DOUBTFUL`), since keytally knows an Idempotency-Key for 60 s.
   */
  onLost: (call: VerifyInput, why: Exclude<Status, 'VALID'> | 'DOUBTFUL' | KeytallyError) => void;
  /** As many calls are kept; those beyond are refused. Preset 10,000. */
  atMost?: number;
  /** How long to wait before looking whether keytally is back; preset 1 s. */
  pauseMs?: number;
};

export type KeptUsage = {
  readonly size: number;
  /** Whether keytally was away when last asked: until it is back, requests are not held up by asking. */
  readonly away: boolean;
  /** Keeps a call; false when there is no room for it. */
  keep(call: KeptCall): boolean;
  /** Reports what is kept, as far as keytally takes it; before the process ends. Gives how many are left. */
  flush(): Promise<number>;
};

// Less than the 60 s of an Idempotency-Key, so that a repetition is one also where it was long on its way.
const REPEATABLE_MS = 50_000;

/** Keeps the usage of requests that were let through while keytally was away, in memory, and reports it later. */
export function keepUsage(client: Keytally, options: KeptUsageOptions): KeptUsage {
  const { onLost, atMost = 10_000, pauseMs = 1_000 } = options;
  const calls = new Set<KeptCall>();
  let away = false;
  let reporting: Promise<void> | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function reportLater(): void {
    if (timer !== undefined || calls.size === 0) return;
    timer = setTimeout(() => void report(), pauseMs);
    // Kept usage alone keeps no process alive; `flush` is for its end.
    (timer as { unref?: () => void }).unref?.();
  }

  function report(): Promise<void> {
    clearTimeout(timer);
    return (reporting ??= reportAll().finally(() => {
      reporting = undefined;
      timer = undefined;
      reportLater();
    }));
  }

  async function reportAll(): Promise<void> {
    for (const call of calls) {
      if (call.sentAtMs === undefined || Date.now() - call.sentAtMs < REPEATABLE_MS) continue;
      calls.delete(call);
      onLost(call.input, 'DOUBTFUL');
    }
    // Asked this way first: a call that was sent and got no answer can only be repeated for a minute.
    if (!(await client.ready())) return;
    for (const call of calls) {
      const outcome = await reportOne(call);
      if (outcome === 'AWAY') {
        away = true;
        return;
      }
      away = false;
      if (outcome === 'RATE_LIMITED') continue;
      calls.delete(call);
      if (outcome !== 'VALID') onLost(call.input, outcome);
    }
  }

  async function reportOne(call: KeptCall): Promise<Status | KeytallyError | 'AWAY'> {
    call.sentAtMs ??= Date.now();
    try {
      const { status } = await client.verify(call.input, { idempotencyKey: call.idempotencyKey });
      // Decided: whatever comes next, this one was not debited unless it is VALID.
      delete call.sentAtMs;
      return status;
    } catch (error) {
      if (!(error instanceof KeytallyError)) throw error;
      return error.isAway ? 'AWAY' : error;
    }
  }

  return {
    get size() {
      return calls.size;
    },
    get away() {
      return away;
    },
    keep(call) {
      away = true;
      if (calls.size >= atMost) return false;
      calls.add(call);
      reportLater();
      return true;
    },
    async flush() {
      await reporting;
      await report();
      return calls.size;
    },
  };
}
