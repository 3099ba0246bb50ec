import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readSummary, runTestFile } from './test-file.ts';

const folder = process.env.TEST_FOLDER ?? '';

test('the counts come from the summary', () => {
  assert.equal(readSummary('  Total:     12\n  Passed:    12\n  Skipped:   0\n'), { passed: 12, failed: 0 });
  assert.is(readSummary('  Total:     12\n  Passed:    10\n  Skipped:   0\n').failed, 2);
});

test('a file that runs no test, skips one, prints no summary or does not end is a failure', async () => {
  const uvu = JSON.stringify(import.meta.resolve('uvu'));
  const wrong: [text: string, problem: RegExp, withinMs?: number][] = [
    [`import { test } from ${uvu}; test('never run', () => {});`, /no summary/],
    [`import { test } from ${uvu}; test.run();`, /no test/],
    [`import { test } from ${uvu}; test('a', () => {}); test.skip('b', () => {}); test.run();`, /skipped 1/],
    [`import { test } from ${uvu}; test('a', () => { throw new Error('no') }); test.run();`, /code 1/],
    [
      `import { test } from ${uvu}; test('a', () => {}); test.run(); process.on('exit', () => { process.exitCode = 3 });`,
      /code 3/,
    ],
    [
      `import { test } from ${uvu}; test('a', () => {}); test.run(); setInterval(() => {}, 1000);`,
      /still ran after 1/,
      1_000,
    ],
    [`throw new Error('at once')`, /code 1/],
    [
      `import { test } from ${uvu}; test('a', () => { setInterval(() => {}, 1000); throw new Error('no') }); test.run();`,
      /code 1/,
    ],
    [
      `import { spawn } from 'node:child_process';
      spawn('sleep', ['600'], { stdio: 'inherit' }).once('spawn', () => { throw new Error('and left a program') });`,
      /code 1/,
    ],
  ];
  mkdirSync(folder, { recursive: true });
  const results = wrong.map(async ([text, problem, withinMs = 60_000], i) => {
    const file = join(folder, `file-${i}.mjs`);
    writeFileSync(file, text);
    const result = await runTestFile(file, { env: process.env, withinMs, signal: new AbortController().signal });
    assert.match(result.problem ?? '', problem, text);
    assert.ok(result.failed > 0, text);
  });
  await Promise.all(results);
});

test('what a hook throws is told', async () => {
  const uvu = JSON.stringify(import.meta.resolve('uvu'));
  mkdirSync(folder, { recursive: true });
  const hooks = ['test.before', 'test.after', 'test.before.each', 'test.after.each'];
  const results = hooks.map(async (hook, i) => {
    const file = join(folder, `hook-${i}.mjs`);
    const thrown = `${hook}(() => { throw new Error('the cause of it') });`;
    writeFileSync(file, `import { test } from ${uvu}; ${thrown} test('a', () => {}); test.run();`);
    const result = await runTestFile(file, {
      env: process.env,
      withinMs: 60_000,
      signal: new AbortController().signal,
    });
    assert.ok(result.failed > 0, hook);
    assert.match(result.output, /the cause of it/, hook);
    assert.match(result.output, new RegExp(`hook-${i}\\.mjs:1`), hook);
  });
  await Promise.all(results);
});

test.run();
