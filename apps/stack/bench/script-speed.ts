import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { newId } from '../../../shared/ids.ts';
import { hashKeyText, keyShard } from '../../../shared/key-text.ts';
import { keyspace, unpack } from '../../../shared/keyspace.ts';
import { showProgress } from '../bench-watch.ts';
import { median } from './rounds.ts';
import type { World } from './world.ts';

/** Calls a second that Redis answers by itself, pipelined 16 deep; `gathered` counts verifications, 16 to a script. */
export type ScriptSpeed = { get: number; single: number; gathered: number };

const DEEP = 16;
const CONNECTIONS = 50;
const CALLS = 200_000;
const ROUNDS = 5;

/** Measures the verify script against a plain GET of the same record. */
export async function measureScript(world: World): Promise<ScriptSpeed> {
  const node = world.link.node(0);
  const lua = readFileSync(new URL('../../../shared/lua/verify.lua', import.meta.url), 'utf8');
  const sha = (await node.client.script('LOAD', lua)) as string;
  const teamId = await teamOf(world);
  const text = world.keys[0]!;
  const key = keyspace.keyText(keyShard(text)!, hashKeyText(text));
  // As shared/decide.ts makes them.
  const call = [
    teamId,
    '',
    `4:${'0'.repeat(32)}`,
    1_000,
    `"i":"${newId('evt')}","r":"GET /users"`,
    '"c":1000,"n":"default"',
    '',
    1,
    'users',
    2,
  ];
  const script = (calls: number) => {
    const args = [node.runId(), Number.MAX_SAFE_INTEGER, '', ...Array.from({ length: calls }, () => call).flat()];
    return ['EVALSHA', sha, calls, ...Array.from({ length: calls }, () => key), ...args].map(String);
  };
  const seen: Record<keyof ScriptSpeed, number[]> = { get: [], single: [], gathered: [] };
  for (let round = 0; round < ROUNDS; round++) {
    seen.get.push(await perSecond(world, ['GET', key], 4 * CALLS));
    seen.single.push(await perSecond(world, script(1), CALLS));
    await world.clear();
    seen.gathered.push(DEEP * (await perSecond(world, script(DEEP), CALLS / DEEP)));
    await world.clear();
    showProgress('script against GET', round + 1, ROUNDS);
  }
  return { get: median(seen.get), single: median(seen.single), gathered: median(seen.gathered) };
}

/** Bytes that Redis takes for the record of a key. */
export async function bytesOfKey(world: World): Promise<number> {
  const text = world.keys[0]!;
  return (await world.link.node(0).client.memory('USAGE', keyspace.keyText(keyShard(text)!, hashKeyText(text)))) ?? NaN;
}

async function teamOf(world: World): Promise<string> {
  const record = await world.link.node(0).client.get(keyspace.token(keyShard(world.token)!, hashKeyText(world.token)));
  return unpack(record!)[2]!;
}

async function perSecond({ redisUrl }: World, command: string[], calls: number): Promise<number> {
  const { port } = new URL(redisUrl);
  const args = ['-p', port, '-c', String(CONNECTIONS), '-P', String(DEEP), '-n', String(calls), '--csv', ...command];
  const { stdout } = await promisify(execFile)('redis-benchmark', args);
  // "name","rps","avg","min","p50","p95","p99","max", and the name holds what was sent.
  return Number(stdout.trim().split('\n').at(-1)!.split('","').at(-7));
}
