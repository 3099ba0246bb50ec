import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { promisify } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';
import { keyspace } from '../shared/stores/keyspace.ts';
import { readRecord } from '../shared/stores/records.ts';
import { scriptText } from '../shared/stores/scripts.ts';
import { newId } from '../shared/values/ids.ts';
import { hashKeyText, keyShard } from '../shared/values/key-text.ts';
import {
  NO_LOOKUP,
  packCall,
  packQuestion,
  readScriptAnswers,
  scriptArguments,
} from '../shared/verification/script-protocol.ts';
import { median } from './rounds.ts';
import { showProgress } from './watch.ts';
import type { World } from './world.ts';

/**
 * Calls a second that Redis answers by itself, pipelined 16 deep. `single` verifications are a script each, `batched` ones
 * 16 to a script, both with their lookup; `lookedUp` ones are batched and bring none. `sketch` is a script that does next to
 * nothing (sketch.lua).
 */
export type ScriptSpeed = { get: number; single: number; batched: number; lookedUp: number; sketch: number };

type Load = { calls: number; connections: number; deep: number };

const DEEP = 16;
const CALLS = 200_000;
const ROUNDS = 5;
const ANSWER_BEGINS = '\r\n$2\r\nOK\r\n';

/** Measures the verify script against a plain GET of the same record, over so many connections. */
export async function measureScript(world: World, connections: number): Promise<ScriptSpeed> {
  const secret = world.keys[0]!;
  const key = keyspace.keyText(keyShard(secret)!, hashKeyText(secret));
  const event = `{"i":"${newId('evt')}","r":"GET /users",${USAGE}`;
  const verifications = await prepareVerifications(world, key, event);
  const sketch = await prepareSketch(world, event);

  const load: Load = { calls: CALLS, connections, deep: DEEP };
  // One connection, as verify has, has sixteen verifications under way: as many scripts of one, or one of all.
  const batchedLoad: Load = { calls: CALLS / DEEP, connections, deep: connections === 1 ? 1 : DEEP };
  const seen: Record<keyof ScriptSpeed, number[]> = { get: [], single: [], batched: [], lookedUp: [], sketch: [] };
  for (let round = 0; round < ROUNDS; round++) {
    seen.get.push(await getsPerSecond(world, key, { calls: 4 * CALLS, connections, deep: DEEP }));
    seen.single.push(await scriptsPerSecond(world, verifications.single, load));
    await world.clear();
    seen.batched.push(DEEP * (await scriptsPerSecond(world, verifications.batched, batchedLoad)));
    await world.clear();
    seen.lookedUp.push(DEEP * (await scriptsPerSecond(world, verifications.lookedUp, batchedLoad)));
    await world.clear();
    seen.sketch.push(await scriptsPerSecond(world, sketch.command, load));
    await sketch.clear();
    showProgress(`script against GET, connections: ${connections}`, round + 1, ROUNDS);
  }
  await sketch.remove();
  return {
    get: median(seen.get),
    single: median(seen.single),
    batched: median(seen.batched),
    lookedUp: median(seen.lookedUp),
    sketch: median(seen.sketch),
  };
}

/** Bytes that Redis takes for the record of a key. */
export async function bytesOfKey(world: World): Promise<number> {
  const secret = world.keys[0]!;
  return (
    (await world.redis.node(0).client.memory('USAGE', keyspace.keyText(keyShard(secret)!, hashKeyText(secret)))) ?? NaN
  );
}

const COST_MICROS = 1_000;
// As shared/verification/verifier.ts makes it.
const USAGE = `"c":${COST_MICROS},"n":"default"`;

/** Commands that verify one key again and again. */
async function prepareVerifications(world: World, key: string, event: string) {
  const node = world.redis.node(0);
  const sha = await loadScript(world, scriptText('verify'));
  const caller = { teamId: await teamOf(world), workspaceIds: undefined };
  const question = packQuestion(caller, [{ representation: 'users', read: true }]);
  const batch = { runId: node.runId(), notAfterMs: Number.MAX_SAFE_INTEGER, outboxFull: false };
  const commandOf = (calls: number, lookup: string) => {
    const call = { lookup, searchedList: '', listed: '', costMicros: COST_MICROS, idempotencyHash: '' };
    const packed = packCall({ ...call, usageHash: '', eventStart: event, question });
    const args = scriptArguments(batch, Array<string>(calls).fill(packed));
    return ['EVALSHA', sha, calls, ...Array<string>(calls).fill(key), ...args].map(String);
  };
  const [command = '', ...args] = commandOf(1, NO_LOOKUP);
  const [answer] = readScriptAnswers((await node.client.call(command, args)) as string[], 1);
  const { lookup } = answer!.newLookup!;
  return { single: commandOf(1, lookup), batched: commandOf(DEEP, lookup), lookedUp: commandOf(DEEP, NO_LOOKUP) };
}

async function prepareSketch(world: World, event: string) {
  const { client } = world.redis.node(0);
  const key = '{00}sketch';
  const fields = {
    state: 'A',
    team: await teamOf(world),
    rate: 1_000_000,
    expiresAt: 0,
    billing: 'meter',
    scopes: 'users',
  };
  await client.hset(key, fields);
  const sha = await loadScript(world, readFileSync(new URL('sketch.lua', import.meta.url), 'utf8'));
  return {
    command: ['EVALSHA', sha, '1', key, String(COST_MICROS), event],
    clear: () => client.del(`${key}:outbox`),
    remove: () => client.del([key, ...['rate', 'billing', 'outbox'].map((name) => `${key}:${name}`)]),
  };
}

async function loadScript(world: World, text: string): Promise<string> {
  return (await world.redis.node(0).client.script('LOAD', text)) as string;
}

async function teamOf(world: World): Promise<string> {
  const record = await world.redis.node(0).client.get(keyspace.token(keyShard(world.token)!, hashKeyText(world.token)));
  return readRecord('token', record!).teamId;
}

async function getsPerSecond({ redisUrl }: World, key: string, load: Load): Promise<number> {
  const { port } = new URL(redisUrl);
  const how = { '-p': port, '-c': load.connections, '-P': load.deep, '-n': load.calls };
  const args = [...Object.entries(how).flat().map(String), '--csv', 'GET', key];
  const { stdout } = await promisify(execFile)('redis-benchmark', args);
  // "name","rps","avg","min","p50","p95","p99","max", and the name holds what was sent.
  return Number(stdout.trim().split('\n').at(-1)!.split('","').at(-7));
}

// redis-benchmark takes no argument with a NUL in it. To write the same bytes again and again and to count answers costs
// far less than the script: it is Redis that this measures, too.
async function scriptsPerSecond({ redisUrl }: World, command: string[], load: Load): Promise<number> {
  const { calls, connections, deep } = load;
  const { hostname, port } = new URL(redisUrl);
  const parts = command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`);
  const pipelined = Buffer.from(`*${command.length}\r\n${parts.join('')}`.repeat(deep));
  const began = performance.now();
  let begun = 0;
  let answered = 0;
  const connection = async () => {
    const socket = connect(Number(port), hostname);
    const go = () => {
      if (begun >= calls) return void socket.end();
      begun += deep;
      socket.write(pipelined);
    };
    let open = deep;
    let rest = '';
    socket.setEncoding('latin1').on('data', (text: string) => {
      const found = (rest + text).split(ANSWER_BEGINS);
      open -= found.length - 1;
      answered += found.length - 1;
      rest = found.at(-1)!.slice(1 - ANSWER_BEGINS.length);
      if (open > 0 || !text.endsWith('\r\n')) return;
      open = deep;
      go();
    });
    socket.once('connect', go);
    await once(socket, 'close');
  };
  await Promise.all(Array.from({ length: connections }, connection));
  if (answered < calls) throw new StackError(`the script answered ${answered} of ${calls} calls with OK`);
  return answered / ((performance.now() - began) / 1000);
}
