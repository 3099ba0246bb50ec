// The case apps of this client, in each framework: ../../helpers/cases.ts says what they must do. case-app.ts FRAMEWORK
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  capture,
  captureAtEnd,
  identityOf,
  keepUsage,
  keytally,
  KeytallyError,
  nodeGuard,
  problemJson,
  type Cost,
  type Keytally,
  type VerifyInput,
} from '../index.ts';
import { makeClient } from '../client.ts';
import { systemClock, type Clock } from '../clock.ts';
import { frameworks, type Settings } from './frameworks.ts';

const KEPT_PAUSE_MS = 50;
const { VERIFY_URL: url, TOKEN: token, VERIFY_TIMEOUT_MS } = process.env;
const framework = frameworks[process.argv[2]!]!;
// Its kept usage is sent again soon.
const clock: Clock = {
  ...systemClock,
  after: (ms, act, inBackground) => systemClock.after(inBackground ? KEPT_PAUSE_MS : ms, act, inBackground),
};
const client = makeClient({ url, token, verifyTimeoutMs: Number(VERIFY_TIMEOUT_MS) }, clock);
const impatient = keytally({ url, token, verifyTimeoutMs: 500 });
const wrong = keytally({ url, token: 'kt_wrong' });

const messages: string[] = [];
const lost: string[] = [];
const open = keepUsage(client, {
  onLost: (_, why) => void lost.push(why instanceof KeytallyError ? String(why.code) : why),
  atMost: 200,
});

const one: Settings = { costOf: () => '1', onError: (error) => void messages.push(error.message) };
const guards: Record<string, [client: Keytally, settings: Settings]> = {
  documents: [client, { ...one, costOf: costOfN, scopes: [{ representation: 'documents', read: true }] }],
  impatient: [impatient, one],
  open: [impatient, { ...one, open }],
  'wrong-cost': [client, { ...one, costOf: (url) => queryOf(url).get('cost')! }],
  'failing-cost': [client, { ...one, costOf: () => fail() }],
  'wrong-token': [wrong, one],
  once: [client, { ...one, costOf: costOfN, idempotencyKeyOf: (header) => header }],
  problem: [client, { ...one, outOfCredits: 429, refusalBody: problemJson }],
  hold: [client, { ...one, costOf: () => '10', hold: { expiresIn: 600 } }],
};
const atEnd: Record<string, string> = {
  'at-end': '4',
  'nothing-at-end': '0.000000',
  'fail-at-end': 'much',
  'empty-at-end': '',
  'stream-at-end': '4',
};

async function handle(path: string, request: object): Promise<object> {
  const [, guard, what = ''] = path.split('/');
  if (guard !== 'hold') return identityOf(request);
  if (what === 'fail') fail();
  if (what.startsWith('refused')) await capture(request, 'much').catch(() => {});
  const captured = /capture/.test(what) ? await capture(request, '3') : undefined;
  if (what === 'capture-refused') await capture(request, 'much').catch(() => {});
  if (what in atEnd) captureAtEnd(request, () => atEnd[what]!);
  return what.startsWith('stream') ? lines() : { captured: captured?.capture.usage ?? null };
}

async function* lines() {
  for (;;) {
    yield 'line\n';
    await sleep(20);
  }
}

const unguarded: Record<string, (request: IncomingMessage) => Promise<object> | object> = {
  errors: () => ({ errors: messages.splice(0) }),
  kept() {
    const told = open.size === 0 ? lost.splice(0).toSorted((a, b) => a.localeCompare(b)) : [];
    return { size: open.size, away: open.away, lost: told };
  },
  ready: async () => ({ ready: await client.ready() }),
  workspace: (request) => outcomeOf(client.workspaces.get({ id: queryOf(request.url!).get('id')! })),
  async verify(request) {
    return Promise.all(((await json(request)) as VerifyInput[]).map((input) => outcomeOf(client.verify(input))));
  },
  async batch(request) {
    const { results } = await client.verifyBatch({ verifications: (await json(request)) as VerifyInput[] });
    return results.map((one) => ('error' in one ? errorWith(one.error.code) : { status: one.status }));
  },
  async client(request) {
    const options = (await json(request)) as { url?: string; token?: string };
    return messageOf(() => keytally({ url: undefined, token: undefined, ...options }));
  },
  async guard(request) {
    const options = (await json(request)) as { cost?: string };
    return messageOf(() => nodeGuard(client, options));
  },
};

const listeners = new Map(
  await Promise.all(
    Object.entries(guards).map(
      async ([name, [own, settings]]) => [name, await framework(own, settings, handle)] as const,
    ),
  ),
);
const server = createServer((request, response) => {
  const name = request.url!.split(/[/?]/)[1]!;
  const listener = listeners.get(name);
  return listener ? listener(request, response) : answer(unguarded[name]!, request, response);
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`listening on ${(server.address() as AddressInfo).port}\n`);
});

async function answer(
  handle: (request: IncomingMessage) => Promise<object> | object,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  response.end(JSON.stringify(await handle(request)));
}

async function outcomeOf(call: Promise<object>): Promise<object> {
  try {
    const { status } = (await call) as { status?: string };
    return { status };
  } catch (error) {
    return error instanceof KeytallyError ? errorWith(error.code, error.status) : { error: null };
  }
}

function errorWith(code: number, status = Math.floor(code / 100)): object {
  return { error: { status, code } };
}

function messageOf(make: () => unknown): object {
  try {
    make();
    return { error: null };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

function costOfN(url: string): string | Cost {
  const n = queryOf(url).get('n') ?? '1';
  return n === 'free' ? '0' : { usage: n, usageName: 'requests' };
}

function queryOf(url: string): URLSearchParams {
  return new URL(url, 'http://a').searchParams;
}

function fail(): never {
  throw new Error('failed');
}
