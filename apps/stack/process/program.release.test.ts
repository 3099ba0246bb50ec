import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { reservePort } from './ports.ts';
import { stopProcess } from './processes.ts';
import { start, untilReady, type Program } from './program.ts';

// Processes that want the same port.

const folder = join(process.env.TEST_FOLDER ?? '', 'program');
const log = join(folder, 'log');
const OTHER_USER = { uid: 65_534, gid: 65_534 };
const [FROM, BELOW, COUNT] = [20_000, 20_080, 15];
let taker: Server;
let port: number;

test.before.each(async () => {
  mkdirSync(folder, { recursive: true });
  taker = createServer().listen(0, '127.0.0.1');
  await once(taker, 'listening');
  ({ port } = taker.address() as AddressInfo);
});
test.after.each(() => void taker.close());

test('a process of another user that took the port of a program is asked nothing, nor taken for it', async () => {
  if (process.getuid?.() !== 0 || !existsSync('/proc/net/tcp')) {
    console.error('NOT TESTED that another user is told no password: only root of a Linux can be two users');
    return;
  }
  const asked: string[] = [];
  const program = waiting({ port, owner: OTHER_USER, isReady: async () => asked.push('the password') > 0 });
  const started = await start(program, log);
  const outcome = await untilReady(program, started, log, 300).catch(String);
  await stopProcess(started, 'SIGKILL', 1_000);
  assert.match(String(outcome), /waiting was not ready within 0.3 s/);
  assert.equal(asked, []);
  // The same listener is the program where its user is the program's.
  const own = waiting({ port, isReady: program.isReady });
  const ownStarted = await start(own, log);
  await untilReady(own, ownStarted, log).finally(() => stopProcess(ownStarted, 'SIGKILL', 1_000));
  assert.is(asked.length, 1);
});

test('a program that ended is not ready, whatever answers on its port', async () => {
  const program = waiting({ port, isReady: () => stopProcess(started, 'SIGKILL', 1_000).then(() => true) });
  const started = await start(program, log);
  const outcome = await untilReady(program, started, log).catch(String);
  assert.match(String(outcome), /waiting was ended by SIGKILL/);
});

test('two processes that look for ports at one moment get none in common while both live, and anybody once they ended', async () => {
  const finders = [find(), find()];
  const [first = [], second = []] = await Promise.all(finders.map(({ ports }) => ports));
  assert.equal([first.length, second.length], [COUNT, COUNT]);
  assert.ok(first.every((one) => one >= FROM && one < BELOW));
  assert.ok(first.every((one) => !second.includes(one)));
  for (const one of first) assert.not.ok(await reservePort(one), `${one} is another's`);
  for (const { stop } of finders) await stop();
  assert.ok(await reservePort(first[0]!));
  assert.not.ok(await reservePort(first[0]!), 'it is reserved now');
});

function waiting(some: Pick<Program, 'port' | 'isReady' | 'owner'>): Program {
  return {
    name: 'waiting',
    command: '/bin/sleep',
    args: ['600'],
    env: {},
    stopSignal: 'SIGTERM',
    stopWithinMs: 1_000,
    ...some,
  };
}

/** A process that finds ports, tells them, and lives on. */
function find() {
  const code = `import { freePorts } from ${JSON.stringify(import.meta.resolve('./ports.ts'))};
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
