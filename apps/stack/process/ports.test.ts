import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts, isHeldByUserOf } from './ports.ts';
import { identify } from './processes.ts';

test('a process never gets the same port twice', async () => {
  const found = (await Promise.all([freePorts(15), freePorts(15)])).flat();
  assert.is(new Set(found).size, 30);
});

test('a folder that somebody else prepared is refused, and a file that is no reservation stays', () => {
  const temporary = mkdtempSync(join(tmpdir(), 'keytally-ports-test-'));
  const reservations = join(temporary, `keytally-ports-${process.getuid?.() ?? 0}`);
  const code = `(await import(${JSON.stringify(import.meta.resolve('./ports.ts'))})).freePorts(1)`;
  const findPort = () =>
    execFileSync(process.execPath, ['--input-type=module', '-e', code], {
      env: { ...process.env, TMPDIR: temporary },
      stdio: 'pipe',
    });
  try {
    symlinkSync(temporary, reservations);
    assert.throws(findPort, /is not a folder of this user/);
    rmSync(reservations);
    mkdirSync(reservations, { mode: 0o700 });
    writeFileSync(join(reservations, 'notes.txt'), '');
    findPort();
    assert.ok(existsSync(join(reservations, 'notes.txt')));
  } finally {
    rmSync(temporary, { recursive: true });
  }
});

const ofIpv6 = existsSync('/proc/net/tcp6') ? ['::', '::ffff:127.0.0.1'] : [];
for (const host of ['127.0.0.1', '0.0.0.0', ...ofIpv6]) {
  test(`who listens on ${host} holds the port of 127.0.0.1, until it listens no more`, async () => {
    const server = createServer().listen(0, host);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    assert.ok(await isHeldByUserOf(identify(process.pid)!, port));
    server.close();
    await once(server, 'close');
    if (existsSync('/proc/net/tcp')) assert.not.ok(await isHeldByUserOf(identify(process.pid)!, port));
  });
}
