import { ApiError } from '../contract/errors.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { readScriptAnswers, scriptArguments, type ScriptAnswer } from './script-protocol.ts';

/** One call of verify.lua: the name of the key's record, and the packed call. */
export type ScriptCall = { shard: number; key: string; packed: string };

// A script of so many calls keeps Redis from others for less than a millisecond.
const MOST_PER_SCRIPT = 16;

type Waiting = { call: ScriptCall; resolve(answer: ScriptAnswer): void; reject(error: unknown): void };
type Batch = { since: number; waiting: Waiting[] };

/**
 * Runs verify.lua once for all calls that one turn of the event loop brought; in a cluster, once for those of each shard.
 * An empty script call costs Redis and this process as much as half a verification. A call that comes alone does not wait.
 */
export function batchScriptCalls(redis: ShardedRedis, outboxFull: () => boolean, deadlineMs: number) {
  const batches = new Map<number, Batch>();
  let waiting = 0;

  return function ask(call: ScriptCall): Promise<ScriptAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<ScriptAnswer>();
    const group = redis.batchGroup(call.shard);
    const batch = batches.get(group) ?? begin(group);
    batch.waiting.push({ call, resolve, reject });
    waiting += 1;
    // The only call need not wait for others, and a full batch is sent at once.
    if (waiting === 1 || batch.waiting.length === MOST_PER_SCRIPT) void send(group, batch);
    return promise;
  };

  function begin(group: number): Batch {
    const batch: Batch = { since: performance.now(), waiting: [] };
    batches.set(group, batch);
    // When no other call waits, `ask` sends it.
    if (waiting > 0) setImmediate(() => batches.get(group) === batch && void send(group, batch));
    return batch;
  }

  async function send(group: number, batch: Batch): Promise<void> {
    batches.delete(group);
    const { waiting: calls, since } = batch;
    const waitedMs = performance.now() - since;
    try {
      const answers = readScriptAnswers(await runScript(calls, Math.max(1, deadlineMs - waitedMs)), calls.length);
      calls.forEach(({ resolve }, i) => resolve(answers[i]!));
    } catch (error) {
      const reason = waitedMs * 2 < deadlineMs ? error : withWait(error, waitedMs, deadlineMs);
      calls.forEach(({ reject }) => reject(reason));
    } finally {
      waiting -= calls.length;
    }
  }

  function runScript(calls: Waiting[], restMs: number): Promise<string[]> {
    const node = redis.node(calls[0]!.call.shard);
    const keys = calls.map(({ call }) => call.key);
    const packed = calls.map(({ call }) => call.packed);
    const args = { runId: node.runId(), notAfterMs: node.notAfter(restMs), outboxFull: outboxFull() };
    return node.script('verify', keys, scriptArguments(args, packed), restMs);
  }
}

/** Says in the log why so few milliseconds were left for Redis: this process was busy while the calls waited in it. */
function withWait(error: unknown, waitedMs: number, deadlineMs: number): unknown {
  if (!(error instanceof ApiError)) return error;
  const spent = `${Math.round(waitedMs)} of the ${deadlineMs} ms for an answer`;
  const cause = new Error(`${spent} had passed in this busy process before it asked Redis`, { cause: error.cause });
  return new ApiError(error.errorName, { message: error.message, cause });
}
