import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const script = (lines: string) => [
  '--input-type=module-typescript',
  '-e',
  `import { setTimeout as sleep } from 'node:timers/promises';
   import { makeLogger } from './shared/runtime/log.ts';
   const log = makeLogger('test', 'info');
   ${lines}`,
];

// Linux has a file whose disk is always full.
test('a program whose log is on a full disk goes on, ends when it wants to, and keeps no more than a few MB of lines', async () => {
  const full = openSync('/dev/full', 'a');
  const child = spawn(
    process.execPath,
    script(`
      log.info('first');
      await sleep(300);
      for (let i = 0; i < 100; i++) log.info({ text: 'x'.repeat(1_000_000) }, 'more');
      await sleep(300);
      process.stderr.write(\`goes on with \${process.memoryUsage().rss >> 20} MB\`);
      log.fatal('last');
      process.exit(3);`),
    // An output that tries again for ever would never end.
    { stdio: ['ignore', full, 'pipe'], timeout: 60_000 },
  );
  closeSync(full);
  const [said, [code]] = await Promise.all([text(child.stderr!), once(child, 'exit')]);
  const [, megabytes] = /^goes on with (\d+) MB$/.exec(said) ?? [];
  assert.ok(Number(megabytes) < 150, said);
  assert.is(code, 3);
});

test('a program whose log is a pipe that nobody reads goes on', async () => {
  const child = spawn(
    process.execPath,
    script(`
      for (let i = 0; i < 20; i++) {
        log.info({ text: 'x'.repeat(1_000_000) }, 'line');
        await sleep(1);
      }
      process.stderr.write('goes on');
      process.kill(process.pid, 'SIGKILL');`),
    { stdio: ['ignore', 'pipe', 'pipe'], timeout: 10_000, killSignal: 'SIGKILL' },
  );
  assert.is(await text(child.stderr), 'goes on');
});

test('no line is lost where there is space, also the last ones before the end', () => {
  const folder = process.env.TEST_FOLDER ?? '';
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'log');
  const log = openSync(file, 'a');
  execFileSync(
    process.execPath,
    script(`
      for (let i = 0; i < 5_000; i++) {
        log.info({ i, text: 'x'.repeat(500) }, 'line');
        if (i % 1_000 === 0) await sleep(1);
      }
      log.fatal({ i: 5_000 }, 'line');
      process.exit(0);`),
    { stdio: ['ignore', log, 'inherit'] },
  );
  closeSync(log);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  const numbers = lines.map((line) => (JSON.parse(line) as { i: number }).i).toSorted((one, other) => one - other);
  assert.equal(numbers, [...Array(5_001).keys()]);
});
