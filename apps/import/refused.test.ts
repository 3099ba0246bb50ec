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
async function runImport(name: string, text: string | Buffer | undefined, ...args: string[]) {
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
  assert.match(
    out,
    /refused, because meta is no JSON object: 1 \(line 4\)\nrefused, because expires is no time such as .+: 1/,
  );
});

const keyLine = (key: string) => JSON.stringify({ name: key, key });
const keysNamed = async (name: string) => (await world.sql`select 1 from api_keys where name = ${name}`).length;
const lostIn = (out: string) => [...out.matchAll(/^not carried over: (\w+): 1 /gm)].map(([, name]) => name!).toSorted();

test('a line that is no JSON object, or too long, is refused with its number, and every other one is imported', async () => {
  const lines = [
    keyLine('key-before-the-wrong-ones'),
    'no json sk-secret-1',
    '["sk-secret-2"]',
    '',
    '{"name": "n", "key": "sk-secret-3',
    `{"name": "${'x'.repeat(1_200_000)}", "key": "sk-secret-4"}`,
    keyLine('key-after-the-wrong-ones'),
  ];
  const report = join(folder, 'lines');
  const { code, out, err } = await runImport('keys-wrong.ndjson', lines.join('\r\n'), '--report', report);
  assert.is(code, 1, err);
  assert.match(out, /^6 keys read: 2 imported, 0 imported before, 4 refused\n/);
  assert.match(
    out,
    /because it is no JSON: 2 \(line 2, line 5\)\nrefused, because it is no JSON object: 1 \(line 3\)\n/,
  );
  assert.match(out, /because it has more than 1000000 characters: 1 \(line 6\)/);
  assert.equal(
    readFileSync(report, 'utf8').split('\n')[0],
    JSON.stringify({ place: 'line 2', refused: 'it is no JSON' }),
  );
  assert.not.match(out + err + readFileSync(report, 'utf8'), /secret/);
});

test('a record with other fields than the first line, with text behind quotes or too long is refused, and no other one', async () => {
  const records = [
    'key,name,expires',
    'csv-key-before-the-wrong-ones,n,',
    'sk-secret-1,n',
    'sk-secret-2,n,,',
    'sk-secret-3,"n"n,',
    `sk-secret-4,${'x'.repeat(1_200_000)},`,
    'csv-key-after-the-wrong-ones,"a ""name"",\r\nof two lines",',
    '',
    'csv-key-at-the-end,n,',
  ];
  const { code, out, err } = await runImport('unkey-wrong.csv', records.join('\r\n'));
  assert.is(code, 1, err);
  assert.match(out, /^7 keys read: 3 imported, 0 imported before, 4 refused\n/);
  for (const told of [
    '2 fields, and the first line names 3: 1 (line 3)',
    '4 fields, and the first line names 3: 1 (line 4)',
  ])
    assert.ok(out.includes(`refused, because it has ${told}`), out);
  assert.match(out, /text behind the quotes of a field: 1 \(line 5\)/);
  assert.match(out, /more than 1000000 characters: 1 \(line 6\)/);
});

test('a file that can be read no further ends the run, after what stands before was imported', async () => {
  const latin1 = Buffer.from(
    `${keyLine('key-before-latin-1')}\n${JSON.stringify({ name: 'M\u00fcller', key: 'k' })}`,
    'latin1',
  );
  const files: [name: string, text: string | Buffer, before: string, told: RegExp][] = [
    ['keys-latin.ndjson', latin1, 'key-before-latin-1', /line 2 is not UTF-8/],
    [
      'unkey-quote.csv',
      'key,name\nkey-before-a-quote,key-before-a-quote\nk,"n\n',
      'key-before-a-quote',
      /within the quotes .+ line 3$/,
    ],
    [
      'kong-half.json',
      '{"data": [{"key": "key-before-half", "consumer": "key-before-half"}, {"key": "k',
      'key-before-half',
      /no whole JSON document$/,
    ],
  ];
  for (const [name, text, before, told] of files) {
    const { code, err } = await runImport(name, text);
    assert.is(code, 2, name);
    const lines = err.trimEnd().split('\n');
    assert.is(lines[0], 'the first 1 rows are done; go on with --skip 1', name);
    assert.match(lines[1]!, told);
    assert.is(await keysNamed(before), 1, name);
  }
  const { code, err } = await runImport('keys-16.ndjson', Buffer.from(`\uFEFF${keyLine('k')}`, 'utf16le'));
  assert.is(code, 2);
  assert.match(err, /^import: line 1 is not UTF-8/);
});

test('a table whose first line does not name its columns ends the run, so that no key is taken for it', async () => {
  for (const name of ['unkey-headless.csv', 'litellm-headless.csv']) {
    const { code, out, err } = await runImport(name, 'a-key-in-the-first-line,n\na-key-in-the-second,n\n');
    assert.equal([code, out.split(':')[0]], [2, '0 keys read']);
    assert.match(err, /^import: line 1 must name the columns, and one of /);
  }
});

test('a table that names a column twice ends the run: nobody knows which one is meant', async () => {
  const { code, err } = await runImport('unkey-twice.csv', 'key,name,meta,meta\na-key-of-two-metas,n,{},{}\n');
  assert.is(code, 2);
  assert.match(err, /^import: line 1 names the column meta twice$/m);
});

test('a name that is too long ends in a whole character, and metadata of null is none', async () => {
  const cut = '\u{1f600}'.repeat(128);
  const { code, out } = await runImport('unkey-long.csv', `key,name,meta\na-key-with-a-long-name,${cut}${cut},null\n`);
  assert.is(code, 0, out);
  assert.is(await keysNamed(cut), 1);
});

test('each limit and right of a key that has no place here is told', async () => {
  const consumer = {
    username: 'u',
    keyauth_credentials: [{ key: 'a-key-of-kong-1' }],
    ...Object.fromEntries(
      ['acls', 'groups', 'plugins', 'jwt_secrets', 'mtls_auth_credentials'].map((name) => [name, []]),
    ),
  };
  const kong = await runImport('kong-lost.json', JSON.stringify({ consumers: [consumer] }), '--dry-run');
  assert.equal(lostIn(kong.out), ['acls', 'groups', 'jwt_secrets', 'mtls_auth_credentials', 'plugins']);
  const told = ['max_budget', 'model_max_budget', 'budget_id', 'rpm_limit', 'models', 'allowed_routes', 'permissions'];
  const csv = [`token,${told.join()}`, `sk-of-litellm-1${',x'.repeat(told.length)}`, 'sk-of-litellm-2,,{},,,{},{},{}'];
  const liteLlm = await runImport('litellm-lost.csv', csv.join('\n'), '--dry-run');
  assert.equal(lostIn(liteLlm.out), told.toSorted());
});

test('a run with --skip adds to its report what it refuses', async () => {
  const report = join(folder, 'two-runs');
  const text = [keyLine('short'), keyLine('a-key-of-two-runs'), keyLine('small')].join('\n');
  const places = () => readFileSync(report, 'utf8').match(/line \d/g);
  await runImport('keys-two-runs.ndjson', text, '--report', report, '--dry-run');
  assert.equal(places(), ['line 1', 'line 3']);
  await runImport('keys-two-runs.ndjson', text, '--report', report, '--skip', '2', '--dry-run');
  assert.equal(places(), ['line 1', 'line 3', 'line 3']);
  await runImport('keys-two-runs.ndjson', text, '--report', report, '--dry-run');
  assert.equal(places(), ['line 1', 'line 3']);
});

test('a report never takes the place of the file to import', async () => {
  const { code, err } = await runImport(
    'keys-itself.ndjson',
    keyLine('a-key-to-keep'),
    '--report',
    join(folder, 'keys-itself.ndjson'),
  );
  assert.equal([code, err], [2, 'import: --report is the file to import\n']);
  assert.is(readFileSync(join(folder, 'keys-itself.ndjson'), 'utf8'), keyLine('a-key-to-keep'));
});

test('a time is read in the forms of ISO 8601 and Unix alone, and a key with any other is refused, never skipped as expired', async () => {
  const at = Date.UTC(2099, 0, 2, 3, 4, 5);
  const good = {
    '2099-01-02T03:04:05Z': at,
    '2099-01-02 03:04:05': at,
    '2099-01-02t03:04:05.678z': at + 678,
    '2099-01-02 03:04:05.678901+00': at + 678,
    '2099-01-02T08:34:05+0530': at,
    '2099-01-01T22:04:05-05:00': at,
    '2099-01-02T03:04Z': at - 5_000,
    '2099-01-02': at - 11_045_000,
    [String(at / 1_000)]: at,
    [String(at)]: at,
  };
  const wrong = [
    '01/02/2099',
    '2.1.2099',
    '-1',
    '0',
    '2099',
    '20990102',
    '2099-02-30',
    '2099-13-01',
    '2099-1-2',
    'Jan 2 2099',
  ];
  wrong.push('2099-01-02T25:00Z', '2099-01-02T03:04:05+99:00', '0000-00-00 00:00:00', `${at}000`, 'infinity', 'Fri');
  const times = [...Object.keys(good), ...wrong];
  const csv = ['key,name,expires', ...times.map((time, i) => `a-key-with-a-time-${i},"time ${i}",${time}`)].join('\n');
  const { code, out } = await runImport('unkey-times.csv', csv);
  assert.is(code, 1);
  assert.is(
    out.split('\n')[0],
    `${times.length} keys read: ${Object.keys(good).length} imported, 0 imported before, ${wrong.length} refused`,
  );
  assert.match(
    out,
    /refused, because expires is no time such as 2027-01-31T12:00:00Z, nor Unix seconds or milliseconds: \d+ /,
  );
  const rows = await world.sql<{ name: string; at: string }[]>`
    select name, expires_at as at from api_keys where name like 'time %'`;
  assert.equal(
    new Map(rows.map((row) => [row.name, Number(row.at)])),
    new Map(Object.values(good).map((time, i) => [`time ${i}`, time])),
  );
});

test('a key is enabled or not by a word for it, and refused for any other', async () => {
  const words = ['TRUE', 'yes', 'f', '0', 'maybe', '2'];
  for (const [form, head, enabled] of [
    ['unkey', 'key,name,enabled', [true, true, false, false]],
    ['litellm', 'token,key_alias,blocked', [false, false, true, true]],
  ] as const) {
    const rows = words.map((word) => `sk-${form}-${word}-1,${form} is ${word},${word}`);
    const { out } = await runImport(`${form}-words.csv`, [head, ...rows].join('\n'));
    assert.match(out, /^6 keys read: 4 imported, 0 imported before, 2 refused\n/);
    assert.match(out, /(enabled|blocked) is neither true nor false: 2 \(line 6, line 7\)/);
    for (const [i, is] of enabled.entries()) {
      const name = `${form} is ${words[i]}`;
      const [row] = await world.sql`select enabled from api_keys where name = ${name}`;
      assert.is(row!['enabled'], is, name);
    }
  }
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
