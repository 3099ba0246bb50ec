// Runs clients/cases.json against an app that a client of some language guards: all clients promise the same.
//
// A language has a small "case app", a program that its test file starts by `runCases`. It reads VERIFY_URL, TOKEN and
// VERIFY_TIMEOUT_MS, listens on a free port of 127.0.0.1, prints `listening on PORT`, and ends on SIGTERM. Its client has
// that time for a verification; a second, impatient client has 500 ms, and a third the token "kt_wrong".
//
// Behind guards, whose onError keeps the messages:
//   GET /documents/…   scopes [documents: read]; the end client's address is X-Forwarded-For; the cost is the query's `n` (default
//                      1) under the name "requests", and "0" where `n` is "free". Answers the identity as JSON.
//   GET /impatient     by the impatient client, cost 1. Answers the identity.
//   GET /open          by the impatient client, cost 1; open: usage kept by the first client, at most 200. Answers the identity.
//   GET /wrong-cost    a cost function that gives the query's `cost`.
//   GET /failing-cost  a cost function that throws.
//   GET /wrong-token   by the client with the wrong token, cost 1.
//   GET /once          cost as of documents, under the end client's Idempotency-Key. Answers the identity.
//   GET /problem       cost 1, 429 for who is out of credits, and refusals as problem details. Answers the identity.
//   GET /hold/…        cost 10, held for 600 s. `capture` captures 3, and answers {"captured": usage, or null if nothing was
//                      held}; `forgotten` captures nothing; `fail` throws, which is a 500; `refused` captures "much", and goes on
//                      when that fails; `refused-capture` then captures 3, and `capture-refused` has done so before; `at-end`
//                      captures 4 at the end, `nothing-at-end` 0.000000, `fail-at-end` "much", `empty-at-end` ""; `stream` writes a
//                      line each 20 ms until the end client leaves, and `stream-at-end` does so too and captures 4 at the end.
// Without a guard:
//   GET /errors        {"errors": messages that onError got since the last time}
//   GET /kept          {"size", "away", "lost": what onLost was told: statuses, "DOUBTFUL", or the codes of errors, sorted}
//   GET /ready         {"ready": whether keytally is, by the first client}
//   GET /workspace     by the first client, the workspace of the query's `id`. Answers an outcome as below, {"error": null} where the
//                      client sent nothing.
//   POST /verify       the body is a list of verifications; all are verified at once by the first client. Answers the list of
//                      outcomes: {"status"}, or {"error": {"status", "code"}}.
//   POST /batch        the same, by one call of its method for batches.
//   POST /client       makes a client of the body's `url`, `verifyUrl` and `token`, each of which may be absent. Answers {"error": the
//                      message of its error, or null}.
//   POST /guard        makes a guard with the body's `cost` and `outOfCredits`, and answers alike.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as ask, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { refusalTable } from '../../apps/api/generate/refusals.ts';
import { CANCEL_PATH } from '../../shared/verification/operation.ts';
import { keyShard } from '../../shared/values/key-text.ts';
import { atEnd } from '../../tests/helpers/at-end.ts';
import { makeEndClients, type EndClients } from '../../tests/helpers/end-clients.ts';
import { waitingEvents } from '../../tests/helpers/outbox.ts';
import { eventually, makeWorld, column } from '../../tests/helpers/world.ts';
import { makeProxy, type Fate, type Proxy } from '../node/helpers/proxy.ts';

/** A request, and its answer: 200, or the status with which the code begins, unless it is named. */
type Sent = {
  /** Of the header X-API-Key. */
  key?: string;
  /** Several of one name are lines of their own. */
  headers?: Record<string, string | string[]>;
  /** Is sent by POST. */
  post?: unknown;
  /** User name and password for `Authorization: Basic`. */
  basic?: string;
  /** How many are sent at once; each must be answered so. */
  times?: number;
  /** Send again until one answer has the status, and its body what is expected. */
  untilOne?: boolean;
  status?: number;
  /** The code of the error; its message and reason are those of the catalogue. */
  code?: number;
  /** The limit that the error names. */
  limit?: string;
  /** A part of the body. */
  body?: object;
  /** A pattern that the body's text matches. */
  matches?: string;
  /** A pattern for each header, `null` where there must be none. */
  has?: Record<string, string | null>;
};
type Step =
  | ({ send: string } & Sent)
  /** Sends, reads the first bytes of the answer, and leaves at `leave`. */
  | ({ open: string } & Sent)
  | { leave: true }
  /** By `/verify`, or by another address. */
  | { verifyEach: object[]; by?: string; outcomes: object[] }
  | { verifyTogether: object; times: number; statuses: Record<string, number> }
  /** What becomes of requests to verify, until it is said again; at first they pass. */
  | { verify: Fate }
  /** What becomes of the next ones. */
  | { next: Fate[] }
  /** What verify was asked since the last such step, readiness and cancels left out. */
  | { asked: Asked }
  /** The credits of the case's own customer, eventually. */
  | { credits: { used: string; held: string } }
  /** The newest usage event of the case's own key. */
  | { recorded: { route: string; usageName: string } };
type Asked = {
  requests?: number;
  requestsAtMost?: number;
  requestsAtLeast?: number;
  paths?: string[];
  idempotencyKeys?: number;
};
type Case = {
  title: string;
  /** Credits of a customer of the case's own, whose key is `{key}`. */
  credits?: string;
  /** Values for which the steps are taken, in the place of `{each.NAME}`; default once. */
  each?: Record<string, unknown>[];
  /** It says nothing of frameworks: of several apps of one client the first alone takes it. */
  ofClient?: true;
  steps: Step[];
};
/** A case app: whether its client is that of the first one, and whether that gathers no calls. */
export type CaseApp = { command: string[]; isOfFirstClient?: boolean; gathersNone?: boolean };

const cases = JSON.parse(readFileSync(new URL('../cases.json', import.meta.url), 'utf8')) as Case[];
// What no message of a client may repeat.
const TOKEN = 'kt_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1';
const refusals = refusalTable();

/** Runs a test for each case and app, in a suite of that name. */
export async function runCases(name: string, apps: Record<string, CaseApp>): Promise<void> {
  const test = suite(name);
  const world = await makeWorld(['verify']);
  const proxy = await makeProxy(world.verify!.url);
  const redis = world.redis.node(0).client;
  const clients = await makeEndClients(world);
  const urls = new Map<string, string>();
  const env = { VERIFY_URL: proxy.url, TOKEN: world.team.token, VERIFY_TIMEOUT_MS: '20000' };
  for (const [app, { command }] of Object.entries(apps)) urls.set(app, await startApp(command, env));

  for (const [app, { isOfFirstClient, gathersNone }] of Object.entries(apps)) {
    for (const { title, credits, each = [{}], steps: all } of cases.filter(
      (one) => !one.ofClient || !isOfFirstClient,
    )) {
      test(`${app}: ${title}`, async () => {
        proxy.fate = 'pass';
        proxy.next();
        const own = credits === undefined ? undefined : await newCustomer(clients, credits);
        const keys = { ...clients.keys, token: TOKEN, good: clients.good.key, ...(own && { key: own.key }) };
        const run = makeSteps({ url: urls.get(app)!, keys, proxy });
        try {
          for (const step of each.flatMap((row) => all.map((step) => withValues(step, row)))) {
            if (gathersNone && 'asked' in step && step.asked.requestsAtMost) continue;
            if ('credits' in step) {
              const { used, held } = step.credits;
              await eventually(`${used} used, ${held} held`, async () => {
                const { usedCredits, heldCredits } = await clients.customers.billing(own!.meter);
                return usedCredits === used && heldCredits === held;
              });
            } else if ('recorded' in step) {
              const newest = (await waitingEvents(redis, keyShard(own!.key)!)).at(-1) ?? '';
              const { r: route, n: usageName } = JSON.parse(newest) as { r: string; n: string };
              const { route: wanted, ...recorded } = step.recorded;
              assert.equal({ route, usageName }, { ...recorded, route: filledWith(keys, wanted) });
            } else await run(step);
          }
        } finally {
          await run({ leave: true });
        }
      });
    }
  }
}

async function newCustomer({ customers }: EndClients, totalCredits: string) {
  const meter = await customers.newMeter({ totalCredits });
  const scopes = [{ representation: 'documents', read: true }];
  return { ...(await customers.newKey({ externalMeterId: meter, scopes })), meter };
}

type OwnStep = Exclude<Step, { credits: unknown } | { recorded: unknown }>;

/** The function that takes a step between the app and the proxy before verify. */
function makeSteps({ url, keys, proxy }: { url: string; keys: Record<string, string>; proxy: Proxy }) {
  let leaving = new AbortController();

  // fetch would join the lines of a header.
  async function sendOnce(path: string, { key, headers = {}, basic, post }: Sent): Promise<Response> {
    const method = post === undefined ? 'GET' : 'POST';
    const request = ask(url + filled(path), { method, signal: leaving.signal });
    for (const [name, value] of Object.entries({ ...(key && { 'X-API-Key': key }), ...headers }))
      request.setHeader(name, [value].flat().map(filled));
    if (basic !== undefined) request.setHeader('Authorization', `Basic ${btoa(filled(basic))}`);
    request.end(post === undefined ? undefined : filledJson(post));
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    const [status, lines] = [answer.statusCode!, Object.entries(answer.headers) as [string, string][]];
    return new Response(Readable.toWeb(answer.on('error', () => {})) as ReadableStream, { status, headers: lines });
  }

  function filled(text: string): string {
    return filledWith(keys, text);
  }

  async function verify(inputs: object[], path: string): Promise<{ status?: string; error?: object }[]> {
    const answer = await fetch(url + path, { method: 'POST', body: filledJson(inputs) });
    assert.is(answer.status, 200);
    return (await answer.json()) as object[];
  }

  function filledJson(value: unknown): string {
    return JSON.stringify(value, (_, one: unknown) => (typeof one === 'string' ? filled(one) : one));
  }

  async function send(path: string, sent: Sent): Promise<void> {
    const all = () => Promise.all(Array.from({ length: sent.times ?? 1 }, () => sendOnce(path, sent)));
    if (!sent.untilOne) {
      for (const answer of await all()) await check(answer, sent);
      return;
    }
    let problem: unknown;
    await eventually('one is answered so', async () => {
      for (const answer of await all()) {
        try {
          await check(answer, sent);
          return true;
        } catch (error) {
          problem = error;
        }
      }
      return false;
    }).catch(() => {
      throw problem;
    });
  }

  return async function take(step: OwnStep): Promise<void> {
    if ('verify' in step) proxy.fate = step.verify;
    else if ('next' in step) proxy.next(...step.next);
    else if ('send' in step) await send(step.send, step);
    else if ('open' in step) {
      const answer = await sendOnce(step.open, step);
      assert.is(answer.status, 200);
      await answer.body!.getReader().read();
    } else if ('leave' in step) {
      leaving.abort();
      leaving = new AbortController();
    } else if ('verifyEach' in step) assert.equal(await verify(step.verifyEach, step.by ?? '/verify'), step.outcomes);
    else if ('verifyTogether' in step) {
      const counts: Record<string, number> = {};
      for (const one of await verify(Array<object>(step.times).fill(step.verifyTogether), '/verify')) {
        const outcome = one.status ?? JSON.stringify(one);
        counts[outcome] = (counts[outcome] ?? 0) + 1;
      }
      assert.equal(counts, step.statuses);
    } else {
      const { requestsAtLeast = 0 } = step.asked;
      if (requestsAtLeast) await eventually('verify is asked', async () => askedOf(proxy).length >= requestsAtLeast);
      checkAsked(step.asked, proxy);
    }
  };
}

function filledWith(keys: Record<string, string>, text: string): string {
  return text.replace(/\{([^{}]+)\}/g, (_, name: string) => {
    const [, count] = /^(\d+) characters$/.exec(name) ?? [];
    if (count) return 'x'.repeat(Number(count));
    if (keys[name] === undefined) throw new Error(`there is no key {${name}}`);
    return keys[name];
  });
}

function withValues(step: Step, row: Record<string, unknown>): Step {
  return JSON.parse(JSON.stringify(step), (_, one: unknown) => {
    if (typeof one !== 'string') return one;
    const [, whole] = /^\{each\.(\w+)\}$/.exec(one) ?? [];
    return whole ? row[whole] : one.replace(/\{each\.(\w+)\}/g, (_, name: string) => String(row[name]));
  }) as Step;
}

function askedOf(proxy: Proxy) {
  return proxy.seen.filter(({ url }) => !['/readyz', '/servingz', CANCEL_PATH].includes(url ?? ''));
}

function checkAsked(expected: Asked, proxy: Proxy): void {
  const seen = askedOf(proxy);
  proxy.seen.length = 0;
  const { requests, requestsAtMost = Infinity, paths, idempotencyKeys } = expected;
  if (requests !== undefined) assert.is(seen.length, requests);
  assert.ok(seen.length <= requestsAtMost, `${seen.length} requests`);
  if (paths) assert.equal(column(seen, 'url'), paths);
  if (idempotencyKeys !== undefined)
    assert.is(new Set(seen.map(({ headers }) => headers['idempotency-key'])).size, idempotencyKeys);
}

async function check(answer: Response, { code, limit, body, matches, has = {}, ...sent }: Sent): Promise<void> {
  const text = await answer.text();
  assert.is(answer.status, sent.status ?? (code === undefined ? 200 : Math.floor(code / 100)), text);
  for (const [name, pattern] of Object.entries(has)) {
    const value = answer.headers.get(name);
    if (pattern === null) assert.is(value, null, name);
    else assert.match(value ?? '', new RegExp(pattern), `${name}: ${value}`);
  }
  if (code !== undefined) {
    assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
    const requestId = answer.headers.get('x-request-id') ?? '';
    assert.match(requestId, /^[!-~]{1,128}$/);
    const [reason, [, said] = []] = Object.entries(refusals).find(([, [one]]) => one === code) ?? [];
    const message = limit ? `${said} Limit: ${limit}.` : said;
    assert.equal(JSON.parse(text), { error: { code, message, requestId, reason, ...(limit && { limit }) } });
  }
  if (matches !== undefined) assert.match(text, new RegExp(matches));
  if (body) assert.equal(partLike(JSON.parse(text), body), body);
}

function partLike(value: unknown, wanted: unknown): unknown {
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) return value;
  const fields = (value ?? {}) as Record<string, unknown>;
  return Object.fromEntries(Object.entries(wanted).map(([name, one]) => [name, partLike(fields[name], one)]));
}

/** Starts a case app until the end of the test file, and waits until it says on which port it listens. Gives its address. */
async function startApp([command, ...args]: string[], env: Record<string, string>) {
  const child = spawn(command!, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const port = await new Promise<string>((resolve, reject) => {
    let said = '';
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the case app ended with ${code}`)));
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      const found = /listening on (\d+)\n/.exec(said)?.[1];
      if (found) resolve(found);
    });
  });
  atEnd(async () => {
    child.kill('SIGTERM');
    await Promise.race([ended, sleep(5_000, undefined, { ref: false })]);
    child.kill('SIGKILL');
  });
  return `http://127.0.0.1:${port}`;
}
