import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../tests/helpers/world.ts';

// The exit code of an import: 0 where each key of the file is in keytally, or was meant to be left out.

let world: World;
let workspaceId: string;
const folder = mkdtempSync(join(tmpdir(), 'keytally-import-'));
const test = suite('what an import refuses');
test.before(async () => {
  world = await makeWorld([]);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
});
test.after(async () => {
  rmSync(folder, { recursive: true });
  await world?.stop();
});

/** Runs the command on a file with this text, or without one on a file that is not there. */
async function runImport(name: string, text: string | undefined, ...args: string[]) {
  const from = join(folder, name);
  if (text !== undefined) writeFileSync(from, text);
  const env = { ...process.env, KEYTALLY_API_URL: world.api.url, KEYTALLY_TOKEN: world.team.token };
  const command = ['apps/import/main.ts', '--from', from, '--workspace', workspaceId, ...args];
  const child = spawn(process.execPath, command, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (piece: string) => (out += piece));
  child.stderr.setEncoding('utf8').on('data', (piece: string) => (err += piece));
  const [code] = (await once(child, 'close')) as [number];
  return { code, out, err };
}

test('a key that was imported before and is deleted is refused, with a sentence that says so', async () => {
  const line = JSON.stringify({ name: 'n', key: 'a-key-that-is-deleted' });
  assert.is((await runImport('keys-deleted.ndjson', line)).code, 0);
  const [{ id }] = await world.sql<[{ id: string }]>`select id from api_keys where workspace_id = ${workspaceId}`;
  assert.is((await runImport('keys-deleted.ndjson', line)).code, 0, 'imported before');
  await must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${id}`));
  const report = join(folder, 'deleted.ndjson');
  const { code, out } = await runImport('keys-deleted.ndjson', line, '--report', report);
  assert.is(code, 1);
  assert.match(out, /^1 keys read: 0 imported, 0 imported before, 1 refused\n/);
  assert.match(out, /refused, because it was imported before and is deleted, which is final: 1 \(line 1\)/);
  assert.match(readFileSync(report, 'utf8'), /"place":"line 1","name":"n","refused":"it was imported before/);
});

test('what cannot be read of a key refuses it; keys that are deleted or have expired are left out without an error', async () => {
  const head = 'hash,name,meta,expires,deleted_at';
  const left = ['h,n,,,2020-01-01', 'h,n,,2020-01-01,'];
  const fine = await runImport('unkey-fine.csv', [head, ...left].join('\n'), '--dry-run');
  assert.equal(
    [fine.code, fine.out.split('\n')[0]],
    [0, '2 keys read: 0 could be imported, 0 imported before, 0 refused'],
  );
  const broken = [head, ...left, 'h,n,no json,,', 'h,n,,some day,'].join('\n');
  const { code, out } = await runImport('unkey-broken.csv', broken, '--dry-run');
  assert.is(code, 1);
  assert.match(out, /^4 keys read: 0 could be imported, 0 imported before, 2 refused\n/);
  assert.match(out, /refused, because meta is no JSON object: 1 \(line 4\)\nrefused, because expires is no time: 1/);
});

test('a file without a key in its form is an error: one whose lines end with CR alone, one with a head alone', async () => {
  for (const text of ['hash,name\rh,n\r', 'hash,name\n', '']) {
    const { code, err } = await runImport('unkey-none.csv', text, '--dry-run');
    assert.is(code, 2);
    assert.match(err, /^import: unkey-none\.csv holds no keys in the form that is read$/m);
  }
});

test('a byte order mark hides neither the first column of a table nor the first line', async () => {
  const hash = Buffer.alloc(32, 7).toString('base64');
  const csv = await runImport('unkey-mark.csv', `\uFEFF"enabled","hash","name"\n0,${hash},marked\n`);
  assert.is(csv.code, 0, csv.out);
  const [row] = await world.sql`select enabled from api_keys where name = 'marked'`;
  assert.is(row!['enabled'], false);
  const lines = await runImport(
    'keys-mark.ndjson',
    `\uFEFF${JSON.stringify({ name: 'n', key: 'a-key-after-a-mark' })}`,
  );
  assert.is(lines.code, 0, lines.err);
});

test('a file that is not there, and a report that cannot be written, are told in one line, with 2', async () => {
  const line = JSON.stringify({ name: 'n', key: 'short' });
  const given: [name: string, text: string | undefined, report: string, told: RegExp][] = [
    ['keys-none.ndjson', undefined, 'report', /^import: ENOENT.+\n$/],
    ['keys-no-report.ndjson', line, 'no/folder/report', /^import: ENOENT.+\n$/],
    ['keys-full.ndjson', line, '/dev/full', /^import: ENOSPC.+\n$/],
  ];
  for (const [name, text, report, told] of given) {
    const { code, err } = await runImport(
      name,
      text,
      '--report',
      report.startsWith('/') ? report : join(folder, report),
    );
    assert.is(code, 2, err);
    assert.match(err, told);
  }
});

test.run();
