import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, renameSync } from 'node:fs';
import { request as ask } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect as connectTls } from 'node:tls';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCertificate } from '../../../tests/helpers/certificate.ts';
import { eventually, makeWorld } from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

const folder = join(process.env.TEST_FOLDER!, 'tls');
mkdirSync(folder, { recursive: true });
const world = await makeWorld();

test('both servers serve TLS, load a new certificate without a restart, and end handshakes that never finish', async () => {
  for (const program of ['api', 'verify']) {
    const files = filesOf('first');
    const { port, child } = await startTls(program, files);
    assert.is(await commonName(port), 'first');
    const answer = await askTls(port, readFileSync(files.TLS_CERTIFICATE_PATH));
    assert.equal(answer, { status: 401, transport: 'max-age=31536000' }, 'the service itself');
    const plain = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined);
    assert.is(plain, undefined, 'no plain HTTP beside it');
    const unfinished = ['', '\x16\x03\x01\x02\x00\x01'].map((hello) => {
      const socket = connect(port, '127.0.0.1').on('error', () => {});
      socket.write(hello, 'latin1');
      return new Promise((resolve) => socket.resume().once('close', resolve));
    });

    const renewed = filesOf('second');
    renameSync(renewed.TLS_KEY_PATH, files.TLS_KEY_PATH);
    await Promise.all(unfinished);
    assert.is(await commonName(port), 'first', 'a key without its certificate changes nothing');
    renameSync(renewed.TLS_CERTIFICATE_PATH, files.TLS_CERTIFICATE_PATH);
    await eventually('the new certificate', async () => (await commonName(port)) === 'second');
    child.kill('SIGTERM');
    assert.is((await once(child, 'exit'))[0], 0, 'it stops when told');
  }
});

/** Starts a program with a certificate. makeWorld cannot: it checks over plain HTTP whether a program is ready. */
async function startTls(program: string, files: Record<string, string>) {
  const env = { ...world.env, ...files, LOG_LEVEL: 'info' };
  const child = spawn(process.execPath, [join(import.meta.dirname, `../../${program}/main.ts`)], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
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
    const asked = ask(options, (response) => {
      const transport = response.headers['strict-transport-security'];
      response.resume().once('end', () => resolve({ status: response.statusCode, transport }));
    });
    asked.on('error', reject).end();
  });
}
