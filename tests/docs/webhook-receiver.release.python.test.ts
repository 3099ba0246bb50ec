// The receivers of docs/webhooks.md, run as they stand behind TLS.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from '../../apps/stack/process/home.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { makeReceiverCertificate, startReceiver, type Got } from '../../apps/webhooks/helpers/receiver.ts';
import { eventually, makeCustomers, must, newWorkspace, spawnWorld } from '../helpers/world.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'receivers');
const { PATH, PYTHONPATH, TEST_PYTHON = '' } = process.env;
let url: string;
let program: ChildProcess | undefined;
let out = '';

// The proxy with TLS that stands before it.
async function forward({ headers, body }: Got): Promise<number> {
  const { host: _, connection: __, ...kept } = headers as Record<string, string>;
  return (await fetch(url, { method: 'POST', headers: kept, body })).status;
}

const answer = (got: Got, response: { writeHead(status: number): { end(): unknown } }) => {
  forward(got).then(
    (status) => response.writeHead(status).end(),
    () => response.writeHead(502).end(),
  );
};
const certificate = makeReceiverCertificate();
const receiver = await startReceiver(certificate, answer);
const world = await spawnWorld([], {
  WEBHOOK_ALLOWED_TARGETS: `*=${receiver.target}`,
  NODE_EXTRA_CA_CERTS: certificate.certificate,
  WEBHOOK_RETRY_SECONDS: '1,1,1,1,1,1',
});
const customers = makeCustomers(world, await newWorkspace(world));
await world.start('webhooks');
mkdirSync(join(folder, 'node_modules'), { recursive: true });
symlinkSync(join(checkout, 'node_modules/standardwebhooks'), join(folder, 'node_modules/standardwebhooks'));
test.after(() => end());

for (const [language, command, file] of [
  ['js', process.execPath, 'webhook-receiver.mjs'],
  ['py', TEST_PYTHON, 'webhook-receiver.py'],
] as const) {
  test(`in ${language} it takes what is signed with either of two secrets, once however often it comes, and refuses what is not`, async () => {
    copyFileSync(join(checkout, 'docs', file), join(folder, file));
    const hook = { url: receiver.url, events: ['key.created', 'key.deleted'] };
    const { webhook } = (await must(201, world.call('post', '/api/v1/webhook', hook))).body;
    const path = `/api/v1/webhook/${webhook.id}`;
    await start(command, file, webhook.secret);
    const { id: keyId } = await customers.newKey({ name: 'acme' });
    const { id, eventId } = await delivered(path, 1);
    await must(200, world.call('post', `${path}/delivery/${id}/redeliver`));
    await delivered(path, 2);
    await eventually('it has printed it', async () => out.includes('\n'));
    const [line, ...others] = out.trim().split('\n');
    const [printed, type, ...data] = line!.split(' ');
    assert.equal([printed, type, others], [eventId, 'key.created', []]);
    assert.is((JSON.parse(data.join(' ')) as { apiKeyId: string }).apiKeyId, keyId);

    const got = receiver.got.at(-1)!;
    const old = String(Math.floor(Date.now() / 1000) - 600);
    assert.is(await forward(got), 204);
    assert.is(await forward({ ...got, body: got.body.replace('acme', 'evil') }), 401);
    assert.is(await forward({ ...got, headers: { ...got.headers, 'webhook-timestamp': old } }), 401);

    const { secret } = (await must(200, world.call('post', `${path}/rotate`))).body.webhook;
    for (const one of [webhook.secret, secret]) {
      await start(command, file, one);
      await must(201, world.call('post', `${path}/test`));
      await delivered(path, 1);
    }
    await must(200, world.call('delete', path));
  });
}

/** Waits until the newest delivery of a webhook is done after so many tries. */
function delivered(path: string, tries: number): Promise<{ id: string; eventId: string }> {
  return eventually(`it is delivered after ${tries} tries`, async () => {
    const [newest] = (await must(200, world.call('get', `${path}/deliveries?limit=1`))).body.deliveries;
    return newest?.state === 'DELIVERED' && newest.tries.length === tries && newest;
  });
}

async function start(command: string, file: string, secret: string): Promise<void> {
  await end();
  const [port = 0] = await freePorts(1);
  url = `http://127.0.0.1:${port}/`;
  out = '';
  program = spawn(command, [file], {
    cwd: folder,
    env: { PATH, PYTHONPATH, WEBHOOK_SECRET: secret, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  program.stdout!.setEncoding('utf8').on('data', (more: string) => (out += more));
  await eventually('it listens', () => fetch(url, { method: 'POST' }).catch(() => undefined));
}

async function end(): Promise<void> {
  if (!program) return;
  program.kill('SIGKILL');
  await once(program, 'exit');
  program = undefined;
}
