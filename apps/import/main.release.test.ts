import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

// What the process says and ends with: 0 where each key of the file is in keytally, or was meant to be left out.
const folder = mkdtempSync(join(tmpdir(), 'keytally-import-'));
test.after(() => rmSync(folder, { recursive: true }));

test('it ends with 0, 1 or 2, and one line says what went wrong', () => {
  const good = JSON.stringify({ name: 'n', key: 'a-key-to-import', allowWeak: true });
  for (const [name, text, more, wanted, told] of [
    ['keys.ndjson', good, [], 0, /^$/],
    ['unkey-left.csv', 'key,expires\na-key-of-old,2020-01-01\n', [], 0, /^$/],
    ['kong-page.json', '{"data":[{"key":"sk-3xVq9TzB1mLw8KfR"}],"next":"/key-auths?offset=a"}', [], 1, /^$/],
    ['kong-weak.json', '[{"key":"REPLACE_WITH_SECRET"}]', ['--allow-weak'], 1, /^$/],
    ['litellm-budget.csv', 'token,max_budget\nsk-3xVq9TzB1mLw8KfR,5\n', [], 1, /^$/],
    ['litellm-budget.csv', undefined, ['--without-credits'], 0, /^$/],
    ['litellm-budget.csv', undefined, ['--meter-from', 'key'], 0, /^$/],
    ['litellm-budget.csv', undefined, ['--meter-from', 'it'], 2, /^import: --meter-from must be/],
    ['keys-short.ndjson', `${good}\n{"key":"short"}`, [], 1, /^$/],
    [
      'keys-broken.ndjson',
      Buffer.from(`${good}\n\u00e9`, 'latin1'),
      [],
      2,
      /^the first 1 rows are done; go on with --skip 1\nimport: line 2 is not UTF-8/,
    ],
    ['unkey-none.csv', 'hash,name\n', [], 2, /^import: unkey-none\.csv holds no keys in the form that is read$/],
    ['export.csv', good, [], 2, /^import: no form is known for export\.csv/],
    ['keys-gone.ndjson', undefined, [], 2, /^import: ENOENT.+$/],
    ['keys.ndjson', good, ['--skip=-1'], 2, /^import: --skip must be/],
    ['keys.ndjson', good, ['--report', join(folder, 'keys.ndjson')], 2, /^import: --report is the file to import$/],
    ['keys-full.ndjson', '{"key":"short"}', ['--report', '/dev/full'], 2, /^import: ENOSPC.+$/],
  ] as const) {
    const { status, stderr } = runImport(name, text, ...more);
    assert.match(stderr.trimEnd(), told);
    assert.is(status, wanted, name);
  }
  assert.is(readFileSync(join(folder, 'keys.ndjson'), 'utf8'), good);
});

test('a run with --skip adds to its report what it refuses', () => {
  const report = join(folder, 'report');
  const lines = ['short', 'a-key-to-import', 'small'].map((key) => JSON.stringify({ key, allowWeak: true })).join('\n');
  const places = (...more: string[]) => {
    runImport('keys-two-runs.ndjson', lines, '--report', report, ...more);
    return readFileSync(report, 'utf8').match(/line \d/g);
  };
  assert.equal(places(), ['line 1', 'line 3']);
  assert.equal(places('--skip', '2'), ['line 1', 'line 3', 'line 3']);
  assert.equal(places(), ['line 1', 'line 3']);
});

/** Runs the command, without sending anything, on a file with this text, or on one that is not there. */
function runImport(name: string, text: string | Buffer | undefined, ...more: string[]) {
  const from = join(folder, name);
  if (text !== undefined) writeFileSync(from, text);
  const command = ['apps/import/main.ts', '--from', from, '--dry-run', ...more];
  return spawnSync(process.execPath, command, { encoding: 'utf8' });
}
