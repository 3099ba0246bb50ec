import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { promisify } from 'node:util';
import { NO_FINDING } from '../shared/verification/lookup-cache.ts';
import { newId } from '../shared/values/ids.ts';
import { hashKeyText, keyShard } from '../shared/values/key-text.ts';
import { flagCharacter, keyspace, packFields, unpack } from '../shared/stores/keyspace.ts';
import { showProgress } from './watch.ts';
import { StackError } from '../apps/stack/process/errors.ts';
import { median } from './rounds.ts';
import type { World } from './world.ts';

/**
 * Calls a second that Redis answers by itself, pipelined 16 deep. `single` verifications are a script each, `gathered` ones
 * 16 to a script, with findings or, `anew`, without; `sketch` is a script that does next to nothing of one (sketch.lua).
 */
export type ScriptSpeed = { get: number; single: number; gathered: number; anew: number; sketch: number };

type Load = { calls: number; connections: number; deep: number };

const DEEP = 16;
const CALLS = 200_000;
const ROUNDS = 5;
const ANSWER_BEGINS = '\r\n$2\r\nOK\r\n';

/** Measures the verify script against a plain GET of the same record, over so many connections. */
export async function measureScript(world: World, connections: number): Promise<ScriptSpeed> {
  // One connection, as verify has, has sixteen verifications under way: as many scripts of one, or one of all.
  const deepOfGathered = connections === 1 ? 1 : DEEP;
  const node = world.redis.node(0);
  const load = async (path: string) =>
    (await node.client.script('LOAD', readFileSync(new URL(path, import.meta.url), 'utf8'))) as string;
  const sha = await load('../shared/stores/lua/verify.lua');
  const teamId = await teamOf(world);
  const text = world.keys[0]!;
  const key = keyspace.keyText(keyShard(text)!, hashKeyText(text));
  // As shared/verification/verifier.ts makes them.
  const usage = '"c":1000,"n":"default"';
  const event = `{"i":"${newId('evt')}","r":"GET /users",${usage}`;
  const question = [teamId, '', 'users', flagCharacter(2)];
  const call = (finding: string) => packFields([finding, `4:${'0'.repeat(32)}`, 1_000, '', usage, event, ...question]);
  const script = (calls: number, finding: string) => {
    const keys = Array.from({ length: calls }, () => key);
    const packed = Array.from({ length: calls }, () => call(finding));
    return ['EVALSHA', sha, calls, ...keys, node.runId(), Number.MAX_SAFE_INTEGER, '', ...packed].map(String);
  };
  const [command = '', ...args] = script(1, NO_FINDING);
  const [, , , , , finding = ''] = (await node.client.call(command, args)) as string[];
  const sketched = '{00}sketch';
  const sketchFields = { state: 'A', team: teamId, rate: 1_000_000, expiresAt: 0, billing: 'meter', scopes: 'users' };
  await node.client.hset(sketched, sketchFields);
  const sketch = ['EVALSHA', await load('sketch.lua'), '1', sketched, '1000', event];
  const sketchKeys = [sketched, ...['rate', 'billing', 'outbox'].map((name) => `${sketched}:${name}`)];

  const one: Load = { calls: CALLS, connections, deep: DEEP };
  const gathered: Load = { calls: CALLS / DEEP, connections, deep: deepOfGathered };
  const seen: Record<keyof ScriptSpeed, number[]> = { get: [], single: [], gathered: [], anew: [], sketch: [] };
  for (let round = 0; round < ROUNDS; round++) {
    seen.get.push(await getsPerSecond(world, key, { calls: 4 * CALLS, connections, deep: DEEP }));
    seen.single.push(await scriptsPerSecond(world, script(1, finding), one));
    await world.clear();
    seen.gathered.push(DEEP * (await scriptsPerSecond(world, script(DEEP, finding), gathered)));
    await world.clear();
    seen.anew.push(DEEP * (await scriptsPerSecond(world, script(DEEP, NO_FINDING), gathered)));
    await world.clear();
    seen.sketch.push(await scriptsPerSecond(world, sketch, one));
    await node.client.del(`${sketched}:outbox`);
    showProgress(`script against GET, connections: ${connections}`, round + 1, ROUNDS);
  }
  await node.client.del(sketchKeys);
  return {
    get: median(seen.get),
    single: median(seen.single),
    gathered: median(seen.gathered),
    anew: median(seen.anew),
    sketch: median(seen.sketch),
  };
}

/** Bytes that Redis takes for the record of a key. */
export async function bytesOfKey(world: World): Promise<number> {
  const text = world.keys[0]!;
  return (
    (await world.redis.node(0).client.memory('USAGE', keyspace.keyText(keyShard(text)!, hashKeyText(text)))) ?? NaN
  );
}

async function teamOf(world: World): Promise<string> {
  const record = await world.redis.node(0).client.get(keyspace.token(keyShard(world.token)!, hashKeyText(world.token)));
  return unpack(record!)[2]!;
}

async function getsPerSecond({ redisUrl }: World, key: string, load: Load): Promise<number> {
  const { port } = new URL(redisUrl);
  const how = { '-p': port, '-c': load.connections, '-P': load.deep, '-n': load.calls };
  const args = [...Object.entries(how).flat().map(String), '--csv', 'GET', key];
  const { stdout } = await promisify(execFile)('redis-benchmark', args);
  // "name","rps","avg","min","p50","p95","p99","max", and the name holds what was sent.
  return Number(stdout.trim().split('\n').at(-1)!.split('","').at(-7));
}

// redis-benchmark takes no argument with a NUL in it. Writing the same bytes again and again and counting answers costs
// far less than the script, so this measures Redis too.
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
