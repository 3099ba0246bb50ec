// The image to try keytally and to test against, as docs/testing.md has it.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keytally } from '../../clients/node/index.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { makeKeyText } from '../../shared/values/key-text.ts';
import { atEnd } from '../helpers/at-end.ts';
import { copyTree } from '../mutants/copy.ts';
import { patiently, startEngine } from './helpers/engine.ts';
import { buildImages, makeBaseImages } from './helpers/images.ts';

const IMAGE = 'keytally/try';
const DAY_MS = 86_400_000;
const folder = process.env.TEST_FOLDER ?? '';
const token = makeKeyText('kt', 7);

const engine = await startEngine(folder);
await makeBaseImages(engine, folder);
const context = copyTree(join(folder, 'checkout'));
await buildImages(engine, { try: { image: IMAGE, build: { context, target: 'try', network: 'host' } } });
const [api = 0, verify = 0] = await freePorts(2);
const published = ['-p', `127.0.0.1:${api}:8080`, '-p', `127.0.0.1:${verify}:8081`];
const host = ['--add-host', 'host.docker.internal:host-gateway'];
const runTry = (...more: string[]) =>
  engine.docker('run', '-d', '--name', 'try', '-v', 'try:/data', ...published, ...more, IMAGE);
await runTry(...host, '-e', `TEST_TOKEN=${token}`);
const url = `http://127.0.0.1:${api}`;
const options = { url, verifyUrl: `http://127.0.0.1:${verify}`, token, timeoutMs: 60_000, verifyTimeoutMs: 60_000 };
const client = keytally(options);

const received: { type: string; data: Record<string, unknown> }[] = [];
const receiver = createServer(async (request, response) => {
  received.push((await json(request)) as (typeof received)[number]);
  response.end();
}).listen(0, '0.0.0.0');
await once(receiver, 'listening');
atEnd(() => receiver.close());
const isReady = async () => (await engine.docker('logs', 'try')).match(/ready: api .*/g);

async function moveTo(now: number): Promise<void> {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
  const body = JSON.stringify({ now: new Date(now).toISOString() });
  const { status } = await fetch(`${url}/api/v1/test-clock`, { method: 'POST', headers, body });
  assert.is(status, 200);
}

test('it says when it is ready, in no line a secret, and takes the token that it was given', async () => {
  await patiently('it is ready', isReady);
  assert.not.match(await engine.docker('logs', 'try'), token);
  const { workspaces } = await client.workspaces.list();
  assert.equal(workspaces, []);
});

test('webhooks go to this host, and a clock that is moved ends keys, grants and months', async () => {
  const { port } = receiver.address() as AddressInfo;
  await client.webhooks.create({
    url: `http://host.docker.internal:${port}/in`,
    events: ['key.expiring', 'grant.expired', 'month.closed'],
  });
  const { workspace } = await client.workspaces.create({ name: 'w' });
  const owner = { workspaceId: workspace.id, externalMeterId: 'acme' };
  const { billing } = await client.billing.create({ ...owner, totalCredits: '10' });
  const began = Date.now();
  await client.grants.create({ bid: billing.id, credits: '5', name: 'trial', expiresAt: began + 3 * DAY_MS });
  const { apiKey } = await client.apiKeys.create({ ...owner, name: 'k', expiresAt: began + 10 * DAY_MS });
  const ask = async () => (await client.verify({ key: apiKey.key, billing: { usage: '1' } })).status;
  const told = (type: string) => patiently(`${type} is told`, async () => received.some((one) => one.type === type));

  assert.is(await ask(), 'VALID');
  await moveTo(began + 4 * DAY_MS);
  assert.is(await ask(), 'VALID');
  await Promise.all(['grant.expired', 'key.expiring'].map(told));
  await moveTo(began + 11 * DAY_MS);
  await patiently('the key has expired', async () => (await ask()) === 'EXPIRED');
  await moveTo(began + 45 * DAY_MS);
  await told('month.closed');
  const { reconciliation } = await client.billing.reconciliation({ bid: billing.id });
  assert.is(reconciliation.status, 'EXACT');
});

test('another container on the volume has the data, the token and the time', async () => {
  const before = Date.parse((await client.workspaces.list()).workspaces[0]!.createdAt);
  await engine.docker('rm', '-f', 'try');
  await runTry();
  await patiently('it is ready', isReady);
  const { workspace } = await client.workspaces.create({ name: 'later' });
  assert.ok(Date.parse(workspace.createdAt) > before + 40 * DAY_MS);
});
