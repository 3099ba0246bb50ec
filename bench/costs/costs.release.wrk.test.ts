// The benchmark measures and prints; how well it does on a busy machine does not matter here.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from '../../apps/stack/process/home.ts';

// How many processes each row has.
const rows = {
  'bare node:http': 1,
  'batches of 32': 4,
  'Koa app': 1,
  'Koa app behind the guard': 5,
  'client.verify, one at a time': 5,
  'a key with four limits': 4,
  'four limits, three grants and two limits': 4,
  'a capture': 4,
};
const wanted = ['batches of 32', 'Koa app behind the guard', 'client.verify', 'four limits', 'a capture'];

test('a short run shows the CPU of each process beside that of a bare server, and what is wanted beside what was reached', () => {
  const charts = join(process.env.TEST_FOLDER ?? '', 'charts');
  mkdirSync(charts, { recursive: true });
  const only = wanted.flatMap((name) => ['--only', name]);
  const args = ['bench/main.ts', '--rounds', '1', '--seconds', '1', '--charts', charts, ...only];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: checkout, encoding: 'utf8' });
  const said = `${stdout}\n${stderr}`;
  assert.not.match(said, /^keytally: /m, said);

  const [, costs = ''] = stdout.split('CPU per verification');
  const cellsOf = (name: string) => {
    const line = costs.split('\n').find((one) => one.startsWith(`${name}  `)) ?? '';
    assert.ok(line, `${name} is not in the table:\n${said}`);
    return [...line.matchAll(/(\d+\.\d) \((\d+\.\d\d)\)/g)].map(
      ([, us, inBare]) => [Number(us), Number(inBare)] as const,
    );
  };
  for (const [name, processes] of Object.entries(rows)) {
    const cells = cellsOf(name);
    // All of them together come last.
    assert.is(cells.length, processes + 1, name);
    const sum = cells.slice(0, -1).reduce((all, [us]) => all + us, 0);
    assert.ok(Math.abs(sum - cells.at(-1)![0]) < 1, `${name}: ${sum} and ${cells.at(-1)![0]}`);
    assert.ok(cells.at(-1)![1] > 0.1, name);
  }
  assert.is(cellsOf('bare node:http')[0]![1], 1);
  // The bare app beside a guarded one, though only that was asked for.
  const [, guards = ''] = stdout.split('CPU of the app per request');
  const [, alone, behind, times] = /^Koa app +(\d+\.\d) +(\d+\.\d) +(\d+\.\d\d) +\d+\.\d\d$/m.exec(guards)!.map(Number);
  // Each figure is rounded to a tenth, which is more of a small one.
  const rounding = (0.05 * (1 + times!)) / alone! + 0.006;
  assert.ok(Math.abs(behind! / alone! - times!) < rounding && times! > 1, guards);

  const figures = stdout.split('\n').filter((line) => / ≤ /.test(line) && /(aim reached|reached|MISSED)/.test(line));
  assert.is(figures.length, 3, figures.join('\n'));
  assert.match(readFileSync(join(charts, 'costs.svg'), 'utf8'), /guard \d+\.\d\d × bare \(wanted 1\.2\)/);
});

test('a name that nothing has is refused, with the names that there are', () => {
  const { status, stderr } = spawnSync(process.execPath, ['bench/main.ts', '--only', 'nothing'], {
    cwd: checkout,
    encoding: 'utf8',
  });
  assert.is(status, 1);
  assert.match(stderr, /there are costs: bare node:http, .*, speed$/m);
});
