import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { promisify } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';
import { keyspace } from '../shared/stores/keyspace.ts';
import { readRecord } from '../shared/stores/records.ts';
import { makeLibrary } from '../shared/stores/scripts.ts';
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

/** Calls a second that Redis answers by itself to one connection, as verify has it, with sixteen under way: verifications are sixteen to a script. */
export type ScriptSpeed = { get: number; batched: number };

const DEEP = 16;
const CALLS = 200_000;
const ROUNDS = 5;
const ANSWER_BEGINS = '\r\n$2\r\nOK\r\n';

/** Measures the verify script against a plain GET of the same record. */
export async function measureScript(world: World): Promise<ScriptSpeed> {
  const secret = world.keys[0]!;
  const key = keyspace.keyText(keyShard(secret)!, hashKeyText(secret));
  const event = `{"i":"${newId('evt')}","r":"GET /users",${USAGE}`;
  const command = await prepareVerifications(world, key, event);
  const seen: ScriptSpeed[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const get = await getsPerSecond(world, key);
    seen.push({ get, batched: DEEP * (await scriptsPerSecond(world, command)) });
    showProgress('script against GET', round + 1, ROUNDS);
  }
  const of = (name: keyof ScriptSpeed) => median(seen.map((one) => one[name]));
  return { get: of('get'), batched: of('batched') };
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

/** A command that verifies one key sixteen times, with its lookup. */
async function prepareVerifications(world: World, key: string, event: string) {
  const node = world.redis.node(0);
  const verify = makeLibrary().functionOf('verify');
  const caller = { teamId: await teamOf(world), workspaceIds: undefined };
  const question = packQuestion(caller, [{ representation: 'users', read: true }]);
  const batch = { runId: node.runId(), notAfterMs: Number.MAX_SAFE_INTEGER, outboxFull: false };
  const commandOf = (calls: number, lookup: string) => {
    const call = { lookup, searchedList: '', listed: '', costMicros: COST_MICROS, idempotencyHash: '' };
    const packed = packCall({ ...call, usageHash: '', question });
    const args = scriptArguments(batch, [packed, ...Array<string>(calls).fill(event)]);
    return ['FCALL', verify, 1, key, ...args].map(String);
  };
  const [command = '', ...args] = commandOf(1, NO_LOOKUP);
  const [answer] = readScriptAnswers((await node.client.call(command, args)) as string[], [1]);
  const { lookup } = answer!.newLookup!;
  return commandOf(DEEP, lookup);
}

async function teamOf(world: World): Promise<string> {
  const record = await world.redis.node(0).client.get(keyspace.token(keyShard(world.token)!, hashKeyText(world.token)));
  return readRecord('token', record!).teamId;
}

async function getsPerSecond({ env }: World, key: string): Promise<number> {
  const how = { '-p': new URL(env.REDIS_URL!).port, '-c': 1, '-P': DEEP, '-n': 4 * CALLS };
  const args = [...Object.entries(how).flat().map(String), '--csv', 'GET', key];
  const { stdout } = await promisify(execFile)('redis-benchmark', args);
  // "name","rps","avg","min","p50","p95","p99","max", and the name holds what was sent.
  return Number(stdout.trim().split('\n').at(-1)!.split('","').at(-7));
}

// redis-benchmark takes no argument with a NUL in it. To write the same bytes again and again and to count answers costs
// far less than the script: it is Redis that this measures, too.
async function scriptsPerSecond({ env, clear }: World, command: string[]): Promise<number> {
  const { hostname, port } = new URL(env.REDIS_URL!);
  const parts = command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`);
  const sent = Buffer.from(`*${command.length}\r\n${parts.join('')}`);
  const calls = CALLS / DEEP;
  const began = performance.now();
  const socket = connect(Number(port), hostname, () => socket.write(sent));
  let answered = 0;
  let rest = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    const found = (rest + text).split(ANSWER_BEGINS);
    answered += found.length - 1;
    rest = found.at(-1)!.slice(1 - ANSWER_BEGINS.length);
    if (found.length === 1 || !text.endsWith('\r\n')) return;
    if (answered < calls) socket.write(sent);
    else socket.end();
  });
  await once(socket, 'close');
  const perSecond = answered / ((performance.now() - began) / 1000);
  if (answered < calls) throw new StackError(`the script answered ${answered} of ${calls} calls with OK`);
  await clear();
  return perSecond;
}
