import type { ShardedRedis } from '../stores/redis.ts';

/** One call as verify.lua takes it: its record's name, and what else it is told, packed. */
export type ScriptCall = { shard: number; key: string; packed: string };
/** What verify.lua gives for it, with what it looked up where it had no finding that still holds. */
export type Said = { nowMs: number; ticks: number; fields: string; lookedUp: LookedUp | undefined };
export type LookedUp = { finding: string; record: string; settings: string; scopes: string };

// A script of so many calls keeps Redis from others for less than a millisecond.
const MOST_PER_SCRIPT = 16;

type Waiting = { call: ScriptCall; resolve(said: Said): void; reject(error: unknown): void };
type Gathered = { since: number; waiting: Waiting[] };

/**
 * Runs the verify script, once for all calls that one turn of the event loop brought (in a cluster, for those of one
 * shard): an empty script call costs Redis and this process as much as half a verification. With one call at a time
 * nothing waits.
 */
export function batchScriptCalls(redis: ShardedRedis, outboxFull: () => boolean, deadlineMs: number) {
  const gathered = new Map<number, Gathered>();
  let waiting = 0;

  return function run(call: ScriptCall): Promise<Said> {
    const { promise, resolve, reject } = Promise.withResolvers<Said>();
    const group = redis.batchGroup(call.shard);
    const batch = gathered.get(group) ?? begin(group);
    batch.waiting.push({ call, resolve, reject });
    waiting += 1;
    // Alone, it need not wait for others; nor do sixteen.
    if (waiting === 1 || batch.waiting.length === MOST_PER_SCRIPT) void send(group, batch);
    return promise;
  };

  function begin(group: number): Gathered {
    const batch: Gathered = { since: performance.now(), waiting: [] };
    gathered.set(group, batch);
    // Where none waits it goes at once.
    if (waiting > 0) setImmediate(() => gathered.get(group) === batch && void send(group, batch));
    return batch;
  }

  async function send(group: number, batch: Gathered): Promise<void> {
    gathered.delete(group);
    const { waiting: calls } = batch;
    try {
      const said = saidOf(await decide(batch), calls.length);
      calls.forEach(({ resolve }, i) => resolve(said[i]!));
    } catch (error) {
      calls.forEach(({ reject }) => reject(error));
    } finally {
      waiting -= calls.length;
    }
  }

  function decide({ since, waiting: calls }: Gathered): Promise<string[]> {
    const node = redis.node(calls[0]!.call.shard);
    const restMs = Math.max(1, deadlineMs - (performance.now() - since));
    const keys = calls.map(({ call }) => call.key);
    const packed = calls.map(({ call }) => call.packed);
    const args = [node.runId(), node.notAfter(restMs), outboxFull() ? '1' : '', ...packed];
    return node.script('verify', keys, args, restMs);
  }
}

// The answer's first three are of the script, then comes one of each call, then five of each that was looked up.
function saidOf(answer: string[], calls: number): Said[] {
  const lookedUp: LookedUp[] = [];
  for (let at = 3 + calls; at < answer.length; at += 5) {
    const [call, finding = '', record = '', settings = '', scopes = ''] = answer.slice(at, at + 5);
    lookedUp[Number(call)] = { finding, record, settings, scopes };
  }
  const [nowMs, ticks] = [Number(answer[1]), Number(answer[2])];
  return answer.slice(3, 3 + calls).map((fields, i) => ({ nowMs, ticks, fields, lookedUp: lookedUp[i] }));
}
