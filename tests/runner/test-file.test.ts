import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorker, type FileResult } from './test-file.ts';

const uvu = JSON.stringify(import.meta.resolve('uvu'));

async function run(texts: string[], withinMs = 60_000): Promise<FileResult[]> {
  const folder = process.env.TEST_FOLDER!;
  mkdirSync(folder, { recursive: true });
  const worker = makeWorker(process.env);
  const results: FileResult[] = [];
  for (const [i, text] of texts.entries()) {
    const file = join(folder, `file-${i}.mjs`);
    writeFileSync(file, text);
    results.push(await worker.run({ file, env: {} }, withinMs));
  }
  await worker.stop();
  return results;
}

test('a file that runs no test, skips one, or throws is a failure', async () => {
  const wrong: [text: string, problem: RegExp][] = [
    [`import { test } from ${uvu};`, /no test/],
    [`import { test } from ${uvu}; test('a', () => {}); test.skip('b', () => {});`, /skipped 1/],
    [`import { test } from ${uvu}; test('a', () => { throw new Error('no') });`, /failed 1/],
    [`import { test } from ${uvu}; test('a', () => process.exit(3));`, /ended by code 3/],
    [`throw new Error('at once')`, /ended by an error/],
    [`setTimeout(() => { throw new Error('later') }); await new Promise(() => {});`, /ended by an error/],
  ];
  const results = await run(wrong.map(([text]) => text));
  for (const [i, { problem, failed }] of results.entries()) {
    assert.match(problem ?? '', wrong[i]![1], wrong[i]![0]);
    assert.ok(failed > 0, wrong[i]![0]);
  }
});
