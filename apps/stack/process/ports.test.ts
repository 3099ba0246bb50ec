import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts, isHeldByUserOf, reservePort } from './ports.ts';
import { identify } from './processes.ts';

const module = JSON.stringify(import.meta.resolve('./ports.ts'));
const [FROM, BELOW, COUNT] = [20_000, 20_080, 15];

test('two processes that look for ports at one moment never get a port in common while both live', async () => {
  const finders = [find(), find()];
  try {
    const [first = [], second = []] = await Promise.all(finders.map(({ ports }) => ports));
    assert.equal([first.length, second.length], [COUNT, COUNT]);
    assert.ok(first.every((port) => port >= FROM && port < BELOW));
    assert.equal(
      first.filter((port) => second.includes(port)),
      [],
    );
    for (const port of first) assert.not.ok(await reservePort(port), `${port} is another's`);
  } finally {
    for (const { stop } of finders) await stop();
  }
});

test('the ports of a process that ended can be had again', async () => {
  const finder = find();
  const [port = 0] = await finder.ports;
  await finder.stop();
  assert.ok(await reservePort(port));
  assert.not.ok(await reservePort(port), 'it is reserved now');
});

test('a process never gets the same port twice', async () => {
  const found = (await Promise.all([freePorts(COUNT), freePorts(COUNT)])).flat();
  assert.is(new Set(found).size, 2 * COUNT);
});

test('a folder that somebody else prepared is refused, and a file that is no reservation stays', () => {
  const temporary = mkdtempSync(join(tmpdir(), 'keytally-ports-test-'));
  const reservations = join(temporary, `keytally-ports-${process.getuid?.() ?? 0}`);
  const notes = join(temporary, 'home', 'notes.txt');
  const findPort = () =>
    execFileSync(process.execPath, ['--input-type=module', '-e', `(await import(${module})).freePorts(1)`], {
      env: { ...process.env, TMPDIR: temporary },
      stdio: 'pipe',
    });
  try {
    mkdirSync(join(temporary, 'home'));
    writeFileSync(notes, '');
    symlinkSync(join(temporary, 'home'), reservations);
    assert.throws(findPort, /is not a folder of this user/);
    rmSync(reservations);
    mkdirSync(reservations, { mode: 0o700 });
    writeFileSync(join(reservations, 'notes.txt'), '');
    findPort();
    assert.equal([existsSync(notes), existsSync(join(reservations, 'notes.txt'))], [true, true]);
  } finally {
    rmSync(temporary, { recursive: true });
  }
});

const ofIpv6 = existsSync('/proc/net/tcp6') ? ['::', '::ffff:127.0.0.1'] : [];
for (const host of ['127.0.0.1', '0.0.0.0', ...ofIpv6]) {
  test(`who listens on ${host} holds the port of 127.0.0.1, until it listens no more`, async () => {
    const server = createServer();
    const port = await listen(server, host);
    assert.ok(await isHeldByUserOf(identify(process.pid)!, port));
    server.close();
    await once(server, 'close');
    if (existsSync('/proc/net/tcp')) assert.not.ok(await isHeldByUserOf(identify(process.pid)!, port));
  });
}

test.run();

async function listen(server: Server, host: string): Promise<number> {
  const [port = 0] = await freePorts(1);
  server.listen(port, host);
  await once(server, 'listening');
  return port;
}

/** A process that finds ports, tells them, and lives on. */
function find() {
  const code = `import { freePorts } from ${module};
    console.log(JSON.stringify(await freePorts(${COUNT}, [], ${BELOW})));
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  return {
    ports: once(child.stdout.setEncoding('utf8'), 'data').then(([text]) => JSON.parse(String(text)) as number[]),
    async stop() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
