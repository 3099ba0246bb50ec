import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts, isHeldByUserOf } from './ports.ts';
import { identify } from './processes.ts';

test('nobody gets the same port twice: neither a process, nor another one while the first lives', async () => {
  const found = (await Promise.all([freePorts(15), freePorts(15)])).flat();
  assert.is(new Set(found).size, 30);
  const code = `console.log(await (await import(${JSON.stringify(import.meta.resolve('./ports.ts'))})).reservePort(${found[0]}))`;
  const reserve = () => execFileSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' });
  assert.is(reserve(), 'false\n');
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
