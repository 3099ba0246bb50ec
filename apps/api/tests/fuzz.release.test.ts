import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkAnswer } from '../../../tests/helpers/contract.ts';
import { speak, type RawAnswer } from '../../../tests/helpers/raw-http.ts';
import { eventually, spawnWorld, type Spawned } from '../../../tests/helpers/world.ts';
import { formats } from '../../../shared/contract/validate.ts';
import {
  bytesOf,
  operationsOf,
  requestsOf,
  type Described,
  type FuzzRequest,
  type OpenApi,
} from './helpers/fuzz-requests.ts';
import type { Pool } from './helpers/fuzz-values.ts';
import { makeThings } from './helpers/requests.ts';

// Whatever a client sends, both servers answer as documented, in time, and live on. `make fuzz MINUTES=20 SEED=7` runs longer.
const seconds = Number(process.env.FUZZ_SECONDS ?? 10);
const seed = Number(process.env.FUZZ_SEED ?? 1);

const ANSWER_WITHIN_MS = 30_000;
const NEW_THINGS_EVERY = 300;
// How often a request is repeated that an overloaded machine answers with 503.
const TIMES = 10;

const pool: Pool = {
  externalMeterId: ['meter'],
  representation: ['documents', 'new'],
  customerId: ['c'],
  cursor: [''],
};
const seen = new Map<string, number>();
const world = await spawnWorld(['verify', 'consumer']);
const servers = [world.api, world.verify!];
await newThings();

test(`for ${seconds} seconds with seed ${seed}: never a 500, never a hang, never death`, async () => {
  const before = servers.map(({ process }) => process.pid);
  const tokens = [
    world.team.token,
    await world.newToken(world.team.id, ['key:read']),
    (await world.newTeam()).token,
    pool['key']![0]!,
    'kt_nonsense',
  ];
  await fuzz(seconds, seed, tokens);

  for (const [i, server] of servers.entries()) {
    assert.is(server.process.exitCode, null);
    assert.is(server.process.pid, before[i]);
    await eventually('it is ready', async () => (await fetch(`${server.url}/readyz`)).ok);
    await eventually('connections are closed', async () => openSockets(server) < 60);
  }
  report();
});

async function fuzz(forSeconds: number, seed: number, tokens: string[]): Promise<void> {
  const options = {
    seed,
    numRuns: Infinity,
    interruptAfterTimeLimit: forSeconds * 1000,
    markInterruptAsFailure: false,
    reporter: reportFailure,
  };
  const operations = await Promise.all(
    servers.map(async ({ url }) => operationsOf((await (await fetch(`${url}/openapi.json`)).json()) as OpenApi)),
  );
  const ofServer = (i: number) => {
    const requests = operations[i]!.map((operation) =>
      requestsOf(operation, pool, tokens).map((request) => ({ operation, request })),
    );
    // Probes need few requests, and each rotation of signing keys makes every later key set longer.
    const rare = ({ path }: Described) => (/\/jwt\/rotate$|^\/[a-z.]+$/.test(path) ? 1 : 20);
    const all = requests.map((arbitrary, at) => ({ arbitrary, weight: rare(operations[i]![at]!) }));
    return fc.asyncProperty(fc.oneof(...all), ({ operation, request }) => send(servers[i]!, operation, request));
  };
  await Promise.all([ofServer(0), ofServer(1)].map((property) => fc.assert<any>(property, options)));
}

// Reports the shortest request that still fails, and why, without the pages of its history.
function reportFailure({
  failed,
  seed,
  counterexamplePath,
  counterexample,
  errorInstance,
}: fc.RunDetails<unknown>): void {
  if (!failed) return;
  const why = errorInstance instanceof Error ? errorInstance.message : String(errorInstance);
  const found = JSON.stringify(counterexample).slice(0, 3_000);
  throw new Error(`seed ${seed}, path ${counterexamplePath}: ${why.slice(0, 2_000)}\n${found}`);
}

async function send(server: Spawned, operation: Described, request: FuzzRequest): Promise<void> {
  if (count('requests') % NEW_THINGS_EVERY === 0) await newThings();
  const answer = await answerTo(server, request);
  const { status, text } = answer;
  count(`${status}`);
  if (request.method === 'HEAD') return assert.ok(answer.headers.get('x-request-id'));
  checkAnswer(server.url, request.method, request.target.split('?', 1)[0]!, answer);
  if (status >= 300 || request.method !== operation.method.toUpperCase()) return;
  count(`${operation.method} ${operation.path}`);
  // Each item of a list of its own kind is refused alone.
  if (operation.body && request.json !== undefined && !text.includes('"error":{')) {
    const validate = validatorOf(operation.body);
    assert.ok(validate(request.json), `what the document forbids was taken: ${JSON.stringify(validate.errors)}`);
  }
  const cursor = /"nextCursor":"([\w-]+)"/.exec(text)?.[1];
  if (cursor) pool['cursor'] = [cursor, ...pool['cursor']!].slice(0, 8);
}

/** The answer to a request. A 503 may come from a busy machine, but not every time. */
async function answerTo(server: Spawned, request: FuzzRequest, times = TIMES): Promise<RawAnswer> {
  const head = request.method === 'HEAD';
  const { answers } = await speak(server.url, [bytesOf(request)], { withinMs: ANSWER_WITHIN_MS, head });
  assert.is(answers.length, 1, `${request.method} ${request.target} got no answer`);
  const answer = answers[0]!;
  // A request to a gateway's endpoint with a wrong token or policy is a mistake of the gateway, which has a code of its own.
  const forGateways = request.target.startsWith('/gateway/');
  // A HEAD has no body to tell by: the same request with GET tells what was wrong.
  if (head && forGateways && answer.status === 500) await answerTo(server, { ...request, method: 'GET' });
  else if (!forGateways || !answer.text.includes('"code":50002,'))
    assert.is.not(answer.status, 500, `${request.method} ${request.target} ${answer.text}`);
  if (answer.status !== 503) return answer;
  count(`503 of ${answer.text.slice(0, 30)}`);
  assert.ok(times > 1, `${request.method} ${request.target} is answered 503 each time: ${answer.text}`);
  await sleep(1_000);
  return answerTo(server, request, times - 1);
}

const ajv = new Ajv2020({ strict: false, formats });
const validators = new Map<object, ValidateFunction>();
function validatorOf(schema: object): ValidateFunction {
  let validate = validators.get(schema);
  if (!validate) validators.set(schema, (validate = ajv.compile(schema)));
  return validate;
}

// Requests always find some things that exist and were not changed or deleted yet.
async function newThings(): Promise<void> {
  await forgetWebhooks();
  const made = await eventually('new things are made', () =>
    makeThings(world, world.team.token).catch((error: unknown) => {
      if (/"code":503/.test(String(error))) return undefined;
      throw error;
    }),
  );
  const add = (value: string, ...names: string[]) => {
    for (const name of names) pool[name] = [value, ...(pool[name] ?? [])].slice(0, 2);
  };
  add(made.workspace, 'workspaceId', 'workspaceIds');
  add(made.scope, 'sid');
  add(made.key, 'akid');
  add(made.keyText, 'key');
  add(made.billing, 'bid');
  add(made.linkToken, 'token');
  add(made.token, 'tokenId');
  add(made.jwt, 'jwt');
  add(made.grant, 'gid');
  add(made.schedule, 'sid');
  add(made.webhook, 'wid');
  add(made.delivery, 'did');
  for (const hold of [made.holdToCapture, made.holdToRelease, made.holdToExtend]) add(hold, 'holdId');
}

// A team has at most 20, and both these things and requests make more. The newest ten stay, which others may be about to use.
async function forgetWebhooks(): Promise<void> {
  const older = await world.sql<{ id: string }[]>`
    select id from webhooks where team_id = ${world.team.id} order by id desc offset 10`;
  for (const { id } of older) await world.call('delete', `/api/v1/webhook/${id}`);
}

function count(what: string): number {
  const so = (seen.get(what) ?? 0) + 1;
  seen.set(what, so);
  return so;
}

function report(): void {
  const lines = [...seen].map(([what, times]) => `  ${what}: ${times}\n`);
  const sorted = lines.toSorted((a, b) => a.localeCompare(b));
  process.stdout.write(`\n${sorted.join('')}`);
}

function openSockets({ process: { pid } }: Spawned): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
