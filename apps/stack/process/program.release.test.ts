import { existsSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { listen } from '../../../tests/helpers/listen.ts';
import { stopProcess } from './processes.ts';
import { start, untilReady, type Program } from './program.ts';

// Processes that want the same port.

const folder = join(process.env.TEST_FOLDER ?? '', 'program');
const log = join(folder, 'log');
const OTHER_USER = { uid: 65_534, gid: 65_534 };
const { port } = await listen(createServer());
mkdirSync(folder, { recursive: true });

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

function waiting(some: Pick<Program, 'port' | 'isReady' | 'owner'>): Program {
  return { name: 'waiting', command: '/bin/sleep', args: ['600'], env: {}, stopWithinMs: 1_000, ...some };
}
