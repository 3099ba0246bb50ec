import { setImmediate as nextTurn } from 'node:timers/promises';
import { ApiError } from '../contract/errors.ts';
import type { SpanKind, Telemetry } from '../runtime/telemetry.ts';
import type { Config } from '../runtime/variables.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { scriptArguments } from './script-protocol.ts';
import {
  makeWaitingCalls,
  MOST_PER_SCRIPT,
  withWait,
  type ScriptCall,
  type WaitingCall,
  type WaitingCalls,
} from './waiting-calls.ts';

// Where nothing came for so long, this process may have been stopped: what it reads then may be old, and its client gone. The end
// of a connection is read a turn of the event loop after what was sent over it, that a turn after it was accepted, and a turn
// accepts one connection. So calls wait until some turns brought none.
const STOPPED_AFTER_MS = 50;
const QUIET_TURNS = 3;
const MOST_TURNS = 64;
// What may be under way to one Redis server, in μs. More would wait in Redis, where the first to come goes first; here teams
// take turns. So much keeps Redis busy: it holds some hundred calls of known keys.
const COST_UNDER_WAY = 1_000;

/** A script that decides several calls, each on its own. */
export type BatchScript<Answer> = {
  name: 'verify' | 'capture' | 'cancel';
  span: SpanKind;
  /** Reads what it answered to groups of so many calls. */
  readAnswers(answer: string[], sizes: number[]): Answer[];
  /** What a call has cost beyond what was expected of it. */
  unexpectedCost?(answer: Answer): number;
};
/** What decides calls by scripts is made with. */
export type BatchOptions = {
  redis: ShardedRedis;
  outboxFull(): boolean;
  /** Throws while Redis is short of memory for what stays: holds, which it remembers for 48 h after their end, and what is cancelled. */
  requireMemory(): void;
  config: Pick<Config, 'VERIFY_DEADLINE_MS' | 'VERIFY_MAX_WAITING'>;
  telemetry: Telemetry;
};

/** The way to one Redis server. */
type Lane<Answer> = {
  node: RedisNode;
  waiting: WaitingCalls<Answer>;
  callsUnderWay: number;
  costUnderWay: number;
  planned: boolean;
  /** When a call or an answer last came. */
  seenAt: number;
  /** Whether calls wait until the end of their connection would have been read. */
  looking: boolean;
};

/**
 * Runs a script once for all calls that one turn of the event loop brought; in a cluster, once for those of each shard.
 * An empty script call costs Redis and this process as much as half a verification. A call that comes alone does not wait.
 * Where more calls come than Redis decides, they wait here, and teams take turns.
 */
export function batchScriptCalls<Answer>(script: BatchScript<Answer>, options: Omit<BatchOptions, 'requireMemory'>) {
  const { redis, outboxFull, config, telemetry } = options;
  const deadlineMs = config.VERIFY_DEADLINE_MS;
  const lanes = new WeakMap<RedisNode, Lane<Answer>>();
  return telemetry.part(script.span, ask);

  function ask(call: ScriptCall): Promise<Answer> {
    const node = redis.node(call.shard);
    const lane = lanes.get(node) ?? begin(node);
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    lane.waiting.push({ ...call, resolve, reject });
    if (looks(lane)) return promise;
    // The only call need not wait for others, and a full batch is sent at once. What costs more than others fills one before so
    // many came: those that are left wait for more.
    const calls = lane.waiting.size();
    if (calls + lane.callsUnderWay === 1) sendWaiting(lane);
    else if (calls >= MOST_PER_SCRIPT) sendBatch(lane);
    if (!lane.planned && lane.waiting.size() > 0) plan(lane);
    return promise;
  }

  function begin(node: RedisNode): Lane<Answer> {
    const waiting = makeWaitingCalls<Answer>(node.clock, deadlineMs);
    const lane = { node, waiting, callsUnderWay: 0, costUnderWay: 0, planned: false, seenAt: 0, looking: false };
    lanes.set(node, lane);
    return lane;
  }

  /** Whether calls must wait, for a turn, since this process may have been stopped. */
  function looks(lane: Lane<Answer>): boolean {
    const now = lane.node.clock.monotonic();
    const wasQuiet = now - lane.seenAt > STOPPED_AFTER_MS;
    lane.seenAt = now;
    if (lane.looking || !wasQuiet) return lane.looking;
    lane.looking = true;
    void endLook(lane);
    return true;
  }

  async function endLook(lane: Lane<Answer>): Promise<void> {
    for (let [quiet, turns] = [0, 0]; quiet < QUIET_TURNS && turns < MOST_TURNS; turns++) {
      const before = lane.waiting.size();
      await nextTurn();
      quiet = lane.waiting.size() === before ? quiet + 1 : 0;
    }
    lane.looking = false;
    sendWaiting(lane);
  }

  function plan(lane: Lane<Answer>): void {
    lane.planned = true;
    setImmediate(() => {
      lane.planned = false;
      sendWaiting(lane);
    });
  }

  function sendWaiting(lane: Lane<Answer>): void {
    if (looks(lane)) return;
    while (lane.waiting.size() > 0 && lane.costUnderWay < COST_UNDER_WAY) sendBatch(lane);
  }

  function sendBatch(lane: Lane<Answer>): void {
    if (lane.costUnderWay >= COST_UNDER_WAY) return;
    const calls = lane.waiting.takeBatch();
    const groups = calls.length > 1 ? Map.groupBy(calls, (call) => redis.batchGroup(call.shard)).values() : [calls];
    for (const together of groups) if (together.length > 0) void send(lane, together);
  }

  async function send(lane: Lane<Answer>, calls: WaitingCall<Answer>[]): Promise<void> {
    let [cost, since] = [0, Infinity];
    for (const call of calls) {
      cost += call.cost;
      since = Math.min(since, call.since);
    }
    const waitedMs = lane.node.clock.monotonic() - since;
    lane.callsUnderWay += calls.length;
    lane.costUnderWay += cost;
    try {
      const groups = groupsOf(calls);
      const answer = await runScript(lane.node, groups, deadlineMs - waitedMs);
      const answers = script
        .readAnswers(
          answer,
          groups.map((group) => group.length),
        )
        .values();
      for (const group of groups) {
        for (const { team, resolve } of group) {
          const answer = answers.next().value!;
          if (script.unexpectedCost) lane.waiting.charge(team, script.unexpectedCost(answer) / group.length);
          resolve(answer);
        }
      }
    } catch (error) {
      const reason = withWait(error, waitedMs, deadlineMs);
      for (const { reject } of calls) reject(reason);
    } finally {
      lane.callsUnderWay -= calls.length;
      lane.costUnderWay -= cost;
      if (!lane.planned) sendWaiting(lane);
    }
  }

  function runScript(node: RedisNode, groups: WaitingCall<Answer>[][], restMs: number): Promise<string[]> {
    const keys = groups.map(([first]) => first!.key);
    const args = { runId: node.runId(), notAfterMs: node.notAfter(restMs), outboxFull: outboxFull() };
    return node.script(script.name, keys, scriptArguments(args, groups.flatMap(packedGroup)), restMs);
  }
}

/** Throws of a call that may have been done, or may still be: it is said to be repeated, unless it was refused before. */
export function throwUndecided(message: string): (cause: unknown) => never {
  return (cause) => {
    throw cause instanceof ApiError && cause.errorName === 'overloaded'
      ? cause
      : new ApiError('undecided', { message, cause });
  };
}

type AskedCall = Pick<ScriptCall, 'key' | 'packed' | 'event'>;

/** Calls of a key that are alike but for their events are a group: the script reads once what they go by, and writes it once. */
export function groupsOf<Call extends AskedCall>(calls: Call[]): Call[][] {
  if (calls.length === 1) return [calls];
  const groups: Call[][] = [];
  const latest = new Map<string, Call[]>();
  for (const call of calls) {
    const group = call.event === undefined ? undefined : latest.get(call.key);
    if (group?.[0]!.packed === call.packed) group.push(call);
    else {
      const own = [call];
      latest.set(call.key, own);
      groups.push(own);
    }
  }
  return groups;
}

/** A group as arguments of its script. */
export function packedGroup(group: AskedCall[]): string[] {
  return [group[0]!.packed, ...group.flatMap(({ event }) => event ?? [])];
}
