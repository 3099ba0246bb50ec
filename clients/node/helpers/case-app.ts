// The case app of this client, in Express: ../../helpers/cases.ts says what it must do.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AddressInfo } from 'node:net';
import express, { type Request, type Response } from 'express';
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
  type GuardOptions,
  type VerifyInput,
} from '../index.ts';

const { VERIFY_URL: url, TOKEN: token, VERIFY_TIMEOUT_MS } = process.env;
const client = keytally({ url, token, verifyTimeoutMs: Number(VERIFY_TIMEOUT_MS) });
const impatient = keytally({ url, token, verifyTimeoutMs: 500 });
const wrong = keytally({ url, token: 'kt_wrong' });

const messages: string[] = [];
const lost: string[] = [];
const open = keepUsage(client, {
  onLost: (_, why) => void lost.push(why instanceof KeytallyError ? String(why.code) : why),
  atMost: 200,
  pauseMs: 50,
});
const options: GuardOptions<Request> = { cost: '1', onError: (error) => void messages.push(error.message) };
const identity = (request: Request, response: Response) => void response.json(identityOf(request));
const app = express().set('env', 'test').disable('x-powered-by');

app.get('/errors', (_, response) => void response.json({ errors: messages.splice(0) }));
app.get('/kept', (_, response) => {
  const told = open.size === 0 ? lost.splice(0).toSorted((a, b) => a.localeCompare(b)) : [];
  response.json({ size: open.size, away: open.away, lost: told });
});
app.post('/verify', express.json({ type: () => true }), async (request, response) => {
  response.json(await Promise.all((request.body as VerifyInput[]).map(outcomeOf)));
});
app.use(
  '/documents',
  nodeGuard(client, {
    ...options,
    cost: ({ query }) => costOf((query.n as string | undefined) ?? '1'),
    scopes: [{ representation: 'documents', read: true }],
    ip: (request) => request.get('x-forwarded-for'),
  }),
  identity,
);
app.get('/impatient', nodeGuard(impatient, options), identity);
app.get('/open', nodeGuard(impatient, { ...options, open }), identity);
app.get('/wrong-cost', nodeGuard(client, { ...options, cost: () => 'much' }), identity);
app.get('/wrong-token', nodeGuard(wrong, options), identity);
app.get(
  '/once',
  nodeGuard(client, {
    ...options,
    cost: ({ query }) => costOf((query.n as string | undefined) ?? '1'),
    idempotencyKey: (request) => request.get('idempotency-key'),
  }),
  identity,
);
app.get('/problem', nodeGuard(client, { ...options, outOfCredits: 429, refusalBody: problemJson }), identity);
app.use('/hold', nodeGuard(client, { ...options, cost: '10', hold: { expiresIn: 600 } }));
app.get('/hold/capture', async (request, response) => {
  response.json({ captured: (await capture(request, '3'))?.capture.usage ?? null });
});
app.get('/hold/forgotten', (_, response) => void response.end());
app.get('/hold/fail', () => {
  throw new Error('failed');
});
for (const [name, cost] of Object.entries({ 'at-end': '4', 'nothing-at-end': '0.000000', 'fail-at-end': 'much' })) {
  app.get(`/hold/${name}`, (request, response) => {
    captureAtEnd(request, () => cost);
    response.end();
  });
}
app.get('/hold/stream', (_, response) => stream(response));
app.get('/hold/stream-at-end', (request, response) => {
  captureAtEnd(request, () => '4');
  return stream(response);
});

const server = app.listen(0, '127.0.0.1', () => {
  process.stdout.write(`listening on ${(server.address() as AddressInfo).port}\n`);
});

function costOf(n: string): string | Cost {
  return n === 'free' ? '0' : { usage: n, usageName: 'requests' };
}

async function outcomeOf(input: VerifyInput) {
  try {
    return { status: (await client.verify(input)).status };
  } catch (error) {
    if (!(error instanceof KeytallyError)) throw error;
    return { error: { status: error.status, code: error.code } };
  }
}

async function stream(response: Response): Promise<void> {
  while (!response.closed) {
    response.write('line\n');
    await sleep(20);
  }
  response.end();
}
