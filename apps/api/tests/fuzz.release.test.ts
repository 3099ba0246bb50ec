import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkAnswer } from '../../../tests/helpers/contract.ts';
import { speak, type RawAnswer } from '../../../tests/helpers/raw-http.ts';
import { eventually, spawnWorld, type Spawned } from '../../../tests/helpers/world.ts';
import { formats } from '../../../shared/contract/validate.ts';
import { encodings, faults, oddHeaders, oddTexts, spoilt, suffixes } from './helpers/odd-input.ts';
import { guarded, makeThings, nameOf, requests, type Things } from './helpers/requests.ts';

// Whatever a client sends, both servers answer as documented, in time, and live on. `make fuzz MINUTES=20 SEED=7` runs longer.
const seconds = Number(process.env.FUZZ_SECONDS ?? 10);
const seed = Number(process.env.FUZZ_SEED ?? 1);

const NEW_THINGS_EVERY = 100;
// How often a request is repeated that an overloaded machine answers with 503.
const TIMES = 10;
const OPEN = '/healthz /docs /console /portal /openapi.json /gateway/plain/usage=1 /.well-known/jwks.json'.split(' ');

const ajv = new Ajv2020({ strict: false, formats });
const world = await spawnWorld(['verify', 'consumer']);
const servers = [world.api, world.verify!];
let things: Things;
let sent = 0;
await newThings();

test(`for ${seconds} seconds with seed ${seed}: never a 500, never a hang, never death`, async () => {
  const tokens = [await world.newToken(world.team.id, ['key:read']), (await world.newTeam()).token, things.keyText, ''];
  const options = {
    seed,
    numRuns: Infinity,
    interruptAfterTimeLimit: seconds * 1000,
    markInterruptAsFailure: false,
    reporter: reportFailure,
  };
  const fuzz = (server: Spawned, routes: typeof guarded) =>
    fc.assert(
      fc.asyncProperty(
        fc.record({
          route: fc.constantFrom(...routes),
          open: fc.option(fc.tuple(fc.constantFrom(...OPEN), oddTexts), { freq: 12 }),
          fault: fc.option(faults, { freq: 3 }),
          suffix: suffixes,
          encode: encodings,
          headers: oddHeaders,
          method: fc.option(fc.constantFrom('GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PURGE'), { freq: 14 }),
          token: fc.oneof({ arbitrary: fc.constant(world.team.token), weight: 12 }, fc.constantFrom(...tokens)),
        }),
        async ({ route, open, fault, suffix, encode, headers, method, token }) => {
          if (sent++ % NEW_THINGS_EVERY === 0) await newThings();
          const made = { path: {}, query: {}, ...requests[nameOf(route)]!.make(things) };
          const { path, query, body } = fault ? spoilt(made, fault) : made;
          const filled = route.path.replace(/\{(\w+)\}/g, (_, name: string) => percent(Object(path)[name]));
          const given = Object.entries<unknown>(Object(query));
          const search = given.map(([name, value]) => `${percent(name)}=${percent(value)}`);
          const target = open
            ? `${open[0]}/${percent(open[1])}`
            : `${filled}${search.length > 0 ? '?' : ''}${search.join('&')}`;
          const bytes = body === undefined ? undefined : Buffer.from(encode(JSON.stringify(body) ?? '') as string);
          const lines = [
            `${(method ?? route.method).toUpperCase()} ${target}${suffix} HTTP/1.1`,
            'Host: fuzz',
            ...(token ? [`Authorization: Bearer ${token}`] : []),
            ...headers,
            ...(bytes ? ['Content-Type: application/json', `Content-Length: ${bytes.length}`] : []),
          ];
          const request = Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), bytes ?? Buffer.alloc(0)]);
          const { status, text } = await answerTo(server, lines[0]!, request);
          const isAsked = status < 300 && !method && !open && bytes?.toString() === JSON.stringify(body);
          // Each item of a list of its own kind is refused alone.
          if (isAsked && route.body && body !== undefined && !text.includes('"error":{'))
            assert.ok(ajv.validate(route.body, body), `what the document forbids was taken: ${ajv.errorsText()}`);
        },
      ),
      options,
    );
  const ofVerify = guarded.filter(({ permission }) => permission === 'key:verify');
  await Promise.all([fuzz(world.api, guarded), fuzz(world.verify!, ofVerify)]);
  for (const server of servers) {
    assert.is(server.process.exitCode, null);
    await eventually('it is ready', async () => (await fetch(`${server.url}/readyz`)).ok);
    await eventually('connections are closed', async () => readdirSync(`/proc/${server.process.pid}/fd`).length < 60);
  }
  assert.ok(sent > 100, `${sent} requests`);
});

/** Throws the shortest request that still fails, and why, without the pages of its history. */
function reportFailure({ failed, counterexamplePath, counterexample, errorInstance }: fc.RunDetails<any>): void {
  if (!failed) return;
  const why = errorInstance instanceof Error ? errorInstance.message : String(errorInstance);
  const found = JSON.stringify(counterexample).slice(0, 3_000);
  throw new Error(`seed ${seed}, path ${counterexamplePath}: ${why.slice(0, 2_000)}\n${found}`);
}

/** The answer to a request, as documented. A 503 may come from a busy machine, but not every time. */
async function answerTo(server: Spawned, line: string, request: Buffer, times = TIMES): Promise<RawAnswer> {
  const [method = '', target = ''] = line.split(' ');
  const isHead = method === 'HEAD';
  const { answers } = await speak(server.url, [request], { head: isHead });
  assert.is(answers.length, 1, `${line} got no answer`);
  const answer = answers[0]!;
  // A request to a gateway's endpoint with a wrong token or policy is a mistake of the gateway, which has a code of its own.
  const isOfGateway = target.startsWith('/gateway/') && (isHead || answer.text.includes('"code":50002,'));
  if (!isOfGateway) assert.is.not(answer.status, 500, `${line} ${answer.text}`);
  if (answer.status === 503) {
    assert.ok(times > 1, `${line} is answered 503 each time: ${answer.text}`);
    await sleep(1_000);
    return answerTo(server, line, request, times - 1);
  }
  if (isHead) assert.ok(answer.headers.get('x-request-id'));
  else checkAnswer(server.url, method, target.split('?', 1)[0]!, answer);
  return answer;
}

// Requests always find some things that exist and were not changed or deleted yet. A team has at most 20 webhooks.
async function newThings(): Promise<void> {
  const older = await world.sql<{ id: string }[]>`
    select id from webhooks where team_id = ${world.team.id} order by id desc offset 10`;
  for (const { id } of older) await world.call('delete', `/api/v1/webhook/${id}`);
  things = await eventually('new things are made', () =>
    makeThings(world, world.team.token).catch((error: unknown) => {
      if (/"code":503/.test(String(error))) return undefined;
      throw error;
    }),
  );
}

// A lone surrogate has no percent-encoding.
function percent(value: unknown): string {
  return encodeURIComponent((typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).toWellFormed());
}
