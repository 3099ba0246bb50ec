import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, renameSync } from 'node:fs';
import { request as ask } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCertificate } from '../../../tests/helpers/certificate.ts';
import { eventually, makeWorld, type World } from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

let world: World;
const folder = join(process.env.TEST_FOLDER!, 'tls');
const test = suite('TLS');
test.before(async () => {
  mkdirSync(folder, { recursive: true });
  world = await makeWorld();
});
test.after(() => world?.stop());

test('both servers serve TLS, and load a new certificate without a restart', async () => {
  for (const program of ['api', 'verify']) {
    const files = filesOf('first');
    const { port, child } = await startTls(program, files);
    assert.is(await commonName(port), 'first');
    const answer = await askTls(port, readFileSync(files.TLS_CERTIFICATE_PATH));
    assert.equal(answer, { status: 401, transport: 'max-age=31536000' }, 'the service itself');
    const plain = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined);
    assert.is(plain, undefined, 'no plain HTTP beside it');

    const renewed = filesOf('second');
    renameSync(renewed.TLS_KEY_PATH, files.TLS_KEY_PATH);
    await sleep(1_500);
    assert.is(await commonName(port), 'first', 'a key without its certificate changes nothing');
    renameSync(renewed.TLS_CERTIFICATE_PATH, files.TLS_CERTIFICATE_PATH);
    await eventually('the new certificate', async () => (await commonName(port)) === 'second');
    child.kill('SIGTERM');
    assert.is((await once(child, 'exit'))[0], 0, 'it stops when told');
  }
});

test('connections that never finish their handshake are closed, and hold up no stop', async () => {
  const { port, child } = await startTls('verify', filesOf('unfinished'));
  const sockets = ['', '\x16\x03\x01\x02\x00\x01'].flatMap((hello) =>
    Array.from({ length: 10 }, () => {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => {}).write(hello, 'latin1');
      return socket.resume();
    }),
  );
  await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve))));
  child.kill('SIGTERM');
  assert.is((await once(child, 'exit'))[0], 0);
});

test('in production no program starts with plain HTTP on an outside address, or with default passwords', () => {
  const withoutPassword = world.env.REDIS_URL!.replace(/:[^/]*@/, '');
  const env = { ...world.env, NODE_ENV: 'production', HOST: '0.0.0.0', REDIS_URL: withoutPassword };
  for (const program of ['api', 'verify']) {
    const script = new URL(`../../${program}/main.ts`, import.meta.url).pathname;
    const { status, stderr } = spawnSync(process.execPath, [script], { env, encoding: 'utf8', timeout: 60_000 });
    assert.is(status, 1, stderr);
    assert.match(stderr, /HOST 0\.0\.0\.0 can be reached from outside/);
    assert.match(stderr, /REDIS_URL must have a password of its own/);
  }
});

test.run();

/** Starts a program with a certificate. makeWorld cannot: it checks over plain HTTP whether a program is ready. */
async function startTls(program: string, files: Record<string, string>) {
  const script = new URL(`../../${program}/main.ts`, import.meta.url).pathname;
  const env = { ...world.env, ...files, LOG_LEVEL: 'info' };
  const child = spawn(process.execPath, [script], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of createInterface(child.stdout)) {
    const { port, tls } = JSON.parse(line) as { port?: number; tls?: boolean };
    if (port === undefined) continue;
    assert.is(tls, true);
    child.stdout.resume();
    return { port, child };
  }
  throw new Error(`${program} ended before it served`);
}

function filesOf(name: string) {
  const { certificate, key } = makeCertificate(folder, name);
  return { TLS_CERTIFICATE_PATH: certificate, TLS_KEY_PATH: key };
}

function commonName(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    }).on('error', reject);
  });
}

function askTls(port: number, ca: Buffer): Promise<{ status: number | undefined; transport: string | undefined }> {
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', path: VERIFY_PATH, method: 'POST', ca };
    ask(options, (response) => {
      response.resume();
      resolve({ status: response.statusCode, transport: response.headers['strict-transport-security'] });
    })
      .on('error', reject)
      .end();
  });
}
