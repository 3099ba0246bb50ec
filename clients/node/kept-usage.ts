import type { Keytally } from './client.ts';
import { clockOf, type Clock } from './clock.ts';
import type { Contract } from './contract.ts';
import { KeytallyError, mayBeDebited } from './error.ts';
import { unknownOption, type OptionNames } from './option-names.ts';
import type { CallOptions, WatchedCallOptions } from './send.ts';
import type { Status, Verification } from './status.ts';
import { tell } from './tell.ts';

export type VerifyInput = Contract['post /api/v1/api-key/verify']['input'];
/** A verification without an answer. `sentAtMs`, by the client's clock, is set once keytally may have debited it. */
export type KeptCall = { input: VerifyInput; idempotencyKey: string; sentAtMs?: number };
type Lost = Exclude<Status, 'VALID'> | 'DOUBTFUL' | KeytallyError;

export type KeptUsageOptions = {
  /**
   * Called with usage that nobody was debited for, and the reason: keytally refused the key (its status), keytally
   * refused the call (the error; also of one that can't be sent), or an attempt may have been debited, and keytally
   * can't tell any more (`DOUBTFUL`): it keeps an Idempotency-Key for 60 s, and looks at none where it refuses the key.
   */
  onLost: (call: VerifyInput, why: Lost) => void;
  /** How many calls may be kept; beyond that, requests are refused. Default 10,000. */
  atMost?: number;
  /** Time between two attempts to reach keytally; default 1 s. */
  pauseMs?: number;
};

export type KeptUsage = {
  readonly size: number;
  /**
   * Whether nobody of keytally answered when last asked. Until it is back, requests do not wait for it. An error of keytally itself, such
   * as for a part of its keys alone, does not count: other requests go on asking.
   */
  readonly away: boolean;
  /** Keeps a call; false if there is no room for it. `wasAnswered`: keytally itself could not decide it, and is not away. */
  keep(call: KeptCall, wasAnswered?: boolean): boolean;
  /** Reports the kept usage that keytally accepts, and gives how many calls are left. Call it before the process ends. */
  flush(): Promise<number>;
};

// Less than the 60 s of an Idempotency-Key: a repetition that is slow on its way must still find it.
const REPEATABLE_MS = 50_000;
const LONGEST_VERIFY_MS = 9_000;

const optionNames: OptionNames<KeptUsageOptions> = { onLost: true, atMost: true, pauseMs: true };

/** Keeps the usage of requests that passed while keytally was unavailable, in memory, and reports it later. */
export function keepUsage(client: Keytally, options: KeptUsageOptions): KeptUsage {
  const unknown = unknownOption(options, optionNames);
  if (unknown) throw new TypeError(`keepUsage(): ${unknown}`);
  const { onLost, atMost = 10_000, pauseMs = 1_000 } = options;
  const clock = clockOf(client);
  const calls = new Set<KeptCall>();
  let away = false;
  let reporting: Promise<void> | undefined;
  let stopTimer: (() => void) | undefined;

  function reportLater(): void {
    if (stopTimer || (calls.size === 0 && !away)) return;
    // Kept usage alone does not keep the process running; `flush` reports it at the end.
    stopTimer = clock.after(pauseMs, () => void report(), true);
  }

  function report(): Promise<void> {
    stopTimer?.();
    return (reporting ??= reportAll().finally(() => {
      reporting = undefined;
      stopTimer = undefined;
      reportLater();
    }));
  }

  async function reportAll(): Promise<void> {
    for (const call of calls) if (isTooOld(call, clock.now())) drop(call, 'DOUBTFUL');
    // Ask for readiness first: once a call was sent and got no answer, it can be repeated for a minute only.
    if (!(await client.ready())) return;
    for (const call of calls) {
      // Those before it took a while.
      const outcome = isTooOld(call, clock.now()) ? 'DOUBTFUL' : await reportCall(client, call);
      away = outcome === 'AWAY';
      if (outcome === 'AWAY') return;
      if (outcome !== 'RATE_LIMITED' && outcome !== 'UNDECIDED') drop(call, outcome);
    }
    away = false;
  }

  function drop(call: KeptCall, outcome: Lost | 'VALID'): void {
    calls.delete(call);
    if (outcome !== 'VALID') tell('onLost', onLost, call.input, outcome);
  }

  return {
    get size() {
      return calls.size;
    },
    get away() {
      return away;
    },
    keep(call, wasAnswered = false) {
      if (!wasAnswered) away = true;
      const hasRoom = calls.size < atMost;
      if (hasRoom) calls.add(call);
      reportLater();
      return hasRoom;
    },
    async flush() {
      await reporting;
      await report();
      return calls.size;
    },
  };
}

// A second debit cannot be ruled out for a call that was sent too long ago, so it is not sent again.
function isTooOld({ sentAtMs }: KeptCall, nowMs: number): boolean {
  return sentAtMs !== undefined && nowMs - sentAtMs >= REPEATABLE_MS;
}

/** Verifies a call, and notes when keytally may have debited it. What it surely did not debit may wait for as long as it takes. */
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

// keytally looks for what the Idempotency-Key debited before it decides these, and only then.
const decidedByDebit: readonly Status[] = ['VALID', 'RATE_LIMITED', 'USAGE_LIMITED'];

async function reportCall(client: Keytally, call: KeptCall): Promise<Status | Lost | 'UNDECIDED' | 'AWAY'> {
  const { signal, stop } = endingAfter(LONGEST_VERIFY_MS, clockOf(client));
  try {
    const { status } = await sendKept(client, call, { signal });
    // Unless it is VALID, this call was not debited.
    if (decidedByDebit.includes(status)) delete call.sentAtMs;
    return call.sentAtMs === undefined ? status : 'DOUBTFUL';
  } catch (error) {
    // It may have been answered by errors, again and again.
    if (signal.aborted) return (await client.ready()) ? 'UNDECIDED' : 'AWAY';
    if (!(error instanceof KeytallyError))
      return new KeytallyError(`the call cannot be sent: ${String(error)}`, { status: 0, code: 0 }, { cause: error });
    // What is not from keytally decides nothing.
    if (error.code === 0) return 'AWAY';
    if (error.isAway) return 'UNDECIDED';
    return call.sentAtMs === undefined ? error : 'DOUBTFUL';
  } finally {
    stop();
  }
}

function endingAfter(ms: number, clock: Clock): { signal: AbortSignal; stop: () => void } {
  const controller = new AbortController();
  const stop = clock.after(ms, () => controller.abort(), true);
  return { signal: controller.signal, stop };
}
