import { ApiError } from '../contract/errors.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { costOfLookup } from './call-cost.ts';
import { makeFairQueue, type FairQueue } from './fair-queue.ts';
import { readScriptAnswers, scriptArguments, type ScriptAnswer } from './script-protocol.ts';

/** One call of verify.lua: the name of the key's record, and the packed call. */
export type ScriptCall = {
  shard: number;
  key: string;
  packed: string;
  /** Whose call it is, and what it is expected to cost Redis (call-cost.ts). */
  team: string;
  cost: number;
  /** When its answer began to be waited for, by `performance.now()`. */
  since: number;
};

// A script of so many calls, or of this cost (μs) and one call more, keeps Redis from others for less than a millisecond.
const MOST_PER_SCRIPT = 16;
const COST_PER_SCRIPT = 160;
// What may be under way to one Redis server. More would wait in Redis, where the first to come goes first; here teams take
// turns. So much keeps Redis busy, as it holds some hundred calls of known keys.
const COST_UNDER_WAY = 1_000;
// A call that waited here for this share of its time could hardly be answered any more.
const WAITS_AT_MOST = 0.8;

type WaitingCall = ScriptCall & { resolve(answer: ScriptAnswer): void; reject(error: unknown): void };
/** The way to one Redis server: the calls that wait for it, and the cost and number of those that are not answered. */
type Lane = { node: RedisNode; queue: FairQueue<WaitingCall>; costUnderWay: number; calls: number; planned: boolean };

/**
 * Runs verify.lua once for all calls that one turn of the event loop brought; in a cluster, once for those of each shard.
 * An empty script call costs Redis and this process as much as half a verification. A call that comes alone does not wait.
 * Where more calls come than Redis decides, they wait here, and teams take turns by what their calls cost.
 */
export function batchScriptCalls(redis: ShardedRedis, outboxFull: () => boolean, deadlineMs: number) {
  const lanes = new WeakMap<RedisNode, Lane>();

  return function ask(call: ScriptCall): Promise<ScriptAnswer> {
    const node = redis.node(call.shard);
    const lane = lanes.get(node) ?? begin(node);
    const { promise, resolve, reject } = Promise.withResolvers<ScriptAnswer>();
    lane.queue.push({ ...call, resolve, reject });
    lane.calls += 1;
    // The only call need not wait for others, and a full batch is sent at once.
    if (lane.calls === 1 || lane.queue.size() >= MOST_PER_SCRIPT) sendWaiting(lane);
    else if (!lane.planned) plan(lane);
    return promise;
  };

  function begin(node: RedisNode): Lane {
    const lane = {
      node,
      queue: makeFairQueue<WaitingCall>(COST_PER_SCRIPT),
      costUnderWay: 0,
      calls: 0,
      planned: false,
    };
    lanes.set(node, lane);
    return lane;
  }

  function plan(lane: Lane): void {
    lane.planned = true;
    setImmediate(() => {
      lane.planned = false;
      sendWaiting(lane);
    });
  }

  function sendWaiting(lane: Lane): void {
    while (lane.queue.size() > 0 && lane.costUnderWay < COST_UNDER_WAY) {
      const calls = takeBatch(lane);
      const groups = calls.length > 1 ? Map.groupBy(calls, (call) => redis.batchGroup(call.shard)).values() : [calls];
      for (const together of groups) if (together.length > 0) void send(lane, together);
    }
  }

  /** Takes the calls of a batch from the queue, and refuses those that waited for too long: they cost nothing. */
  function takeBatch(lane: Lane): WaitingCall[] {
    const now = performance.now();
    const calls: WaitingCall[] = [];
    let cost = 0;
    while (calls.length < MOST_PER_SCRIPT && cost < COST_PER_SCRIPT) {
      const call = lane.queue.take();
      if (!call) break;
      const waitedMs = now - call.since;
      if (waitedMs < deadlineMs * WAITS_AT_MOST) {
        calls.push(call);
        cost += call.cost;
      } else {
        lane.calls -= 1;
        call.reject(new ApiError('overloaded', { cause: spent(waitedMs, deadlineMs) }));
      }
    }
    return calls;
  }

  async function send(lane: Lane, calls: WaitingCall[]): Promise<void> {
    const { node, queue } = lane;
    const cost = calls.reduce((sum, call) => sum + call.cost, 0);
    lane.costUnderWay += cost;
    const waitedMs = performance.now() - Math.min(...calls.map(({ since }) => since));
    try {
      const answers = readScriptAnswers(await runScript(node, calls, deadlineMs - waitedMs), calls.length);
      for (const [i, { team, resolve }] of calls.entries()) {
        const answer = answers[i]!;
        if (answer.newLookup) queue.charge(team, costOfLookup(answer.newLookup));
        resolve(answer);
      }
    } catch (error) {
      const reason = waitedMs * 2 < deadlineMs ? error : withWait(error, waitedMs, deadlineMs);
      for (const { reject } of calls) reject(reason);
    } finally {
      lane.calls -= calls.length;
      lane.costUnderWay -= cost;
      if (!lane.planned) sendWaiting(lane);
    }
  }

  function runScript(node: RedisNode, calls: WaitingCall[], restMs: number): Promise<string[]> {
    const keys = calls.map((call) => call.key);
    const packed = calls.map((call) => call.packed);
    const args = { runId: node.runId(), notAfterMs: node.notAfter(restMs), outboxFull: outboxFull() };
    return node.script('verify', keys, scriptArguments(args, packed), restMs);
  }
}

/** Says in the log why so few milliseconds were left for Redis: this process was busy while the calls waited in it. */
function withWait(error: unknown, waitedMs: number, deadlineMs: number): unknown {
  if (!(error instanceof ApiError)) return error;
  const cause = spent(waitedMs, deadlineMs, error.cause);
  return new ApiError(error.errorName, { message: error.message, cause });
}

function spent(waitedMs: number, deadlineMs: number, cause?: unknown): Error {
  const passed = `${Math.round(waitedMs)} of the ${deadlineMs} ms for an answer had passed`;
  return new Error(`${passed} in this busy process before it asked Redis`, { cause });
}
