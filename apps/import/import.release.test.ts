import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../tests/helpers/world.ts';

const KEYS = 20_000;
const PER_FORM = KEYS / 4;
let world: World;
let workspaceId: string;
let customers: Customers;
const folder = mkdtempSync(join(tmpdir(), 'keytally-import-'));
const test = suite('the command import');
test.before(async () => {
  world = await makeWorld(['verify']);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  rmSync(folder, { recursive: true });
  await world?.stop();
});

test('20,000 keys of four forms are imported, and a second run of the same files changes nothing', async () => {
  await writeFiles();
  for (const [file, shown] of [
    ['unkey.csv', 'customer-unkey-7'],
    ['litellm.csv', 'customer-litellm-7'],
    ['kong.json', 'customer-kong-7'],
    ['keys.ndjson', 'customer-keys-7'],
  ] as const) {
    const dry = await runImport(file, '--dry-run');
    assert.match(
      dry.out,
      new RegExp(`^${PER_FORM} keys read: ${PER_FORM} could be imported, 0 imported before, 0 refused`),
    );
    const first = await runImport(file);
    assert.equal([first.code, first.out.split('\n')[0]], [0, line(PER_FORM, 0)], first.err);
    const { body } = await must(200, customers.verify({ key: textOf(file.split('.')[0]!, 7) }));
    assert.equal([body.status, body.customerId], ['VALID', shown]);
  }
  const before = await stored();
  assert.is(before.keys, KEYS);
  for (const file of ['unkey.csv', 'litellm.csv', 'kong.json', 'keys.ndjson']) {
    assert.equal((await runImport(file)).out.split('\n')[0], line(0, PER_FORM));
  }
  assert.equal(await stored(), before);
});

test('what keytally refuses is told with its place, the rest is imported, and no secret stands in output or report', async () => {
  const items = [
    { name: 'good', key: 'a-good-foreign-key' },
    { name: 'short', key: 'short' },
    { name: 'scoped', key: 'another-foreign-key', scopes: [{ representation: 'unknown', read: true }] },
    { name: 'large', key: 'large-foreign-key-1', metadata: { text: 'x'.repeat(70_000) } },
    { name: 'elsewhere', key: 'foreign-key-elsewhere', workspaceId: 'ws_unknown' },
  ];
  writeFileSync(join(folder, 'keys-mixed.ndjson'), items.map((item) => JSON.stringify(item)).join('\n'));
  const report = join(folder, 'report.ndjson');
  const { code, out, err } = await runImport('keys-mixed.ndjson', '--report', report);
  assert.is(code, 1);
  assert.match(out, /^5 keys read: 1 imported, 0 imported before, 4 refused\n/);
  for (const told of ['40001: 1 (line 2)', '40003: 1 (line 3)', '40302: 1 (line 5)', '60000 bytes: 1 (line 4)'])
    assert.ok(out.includes(told), out);
  const lines = readFileSync(report, 'utf8')
    .trim()
    .split('\n')
    .map((one) => JSON.parse(one));
  assert.equal(lines.map(({ place }) => place as string).toSorted(), ['line 2', 'line 3', 'line 4', 'line 5']);
  assert.not.ok(/foreign-key/.test(out + err + readFileSync(report, 'utf8')));
});

test('a file that ends being text is read up to there; the run says where to go on, and --skip goes on there', async () => {
  const line = (i: number) => JSON.stringify({ name: 'n', key: `a-key-of-a-broken-file-${i}` });
  const lines = Array.from({ length: 250 }, (_, i) => line(i));
  writeFileSync(join(folder, 'keys-broken.ndjson'), Buffer.from([...lines, '\u00e9', line(250)].join('\n'), 'latin1'));
  const broken = await runImport('keys-broken.ndjson', '--at-once', '1');
  assert.is(broken.code, 2);
  assert.match(broken.err, /the first 250 rows are done; go on with --skip 250\nimport: line 251 is not UTF-8/);
  writeFileSync(join(folder, 'keys-broken.ndjson'), [...lines, line(250)].join('\n'));
  const mended = await runImport('keys-broken.ndjson', '--skip', '250');
  assert.match(mended.out, /^1 keys read: 1 imported, 0 imported before, 0 refused\n/);
});

test('an unknown form, a missing file and a wrong token are told, and nothing is imported', async () => {
  const before = await stored();
  writeFileSync(join(folder, 'export.csv'), 'a,b\n1,2\n');
  assert.match((await runImport('export.csv')).err, /no form is known for export\.csv/);
  assert.match((await runImport('unkey-none.csv')).err, /ENOENT/);
  writeFileSync(join(folder, 'keys-one.ndjson'), JSON.stringify({ name: 'n', key: 'one-more-foreign-key' }));
  const { code, err } = await runImport('keys-one.ndjson', { KEYTALLY_TOKEN: 'kt_wrong' });
  assert.is(code, 2);
  assert.match(err, /import: 40102: The access token is unknown/);
  assert.match((await runImport('keys-one.ndjson', '--skip', '-1')).err, /--skip/);
  assert.equal(await stored(), before);
});

test('a run beyond the quota of keys stops at once and says so, and goes on once the team may have more', async () => {
  const { keys: had } = await stored();
  const quota = async (keys: number) => {
    const limits = world.sql.json({ keys });
    await world.sql`
      insert into team_quotas (team_id, limits) values (${world.team.id}, ${limits})
      on conflict (team_id) do update set limits = excluded.limits`;
  };
  await quota(had + 450);
  const line = (i: number) => JSON.stringify({ name: 'n', key: `a-key-of-a-large-file-${i}` });
  writeFileSync(join(folder, 'keys-large.ndjson'), Array.from({ length: 3_000 }, (_, i) => line(i)).join('\n'));
  const stopped = await runImport('keys-large.ndjson');
  assert.is(stopped.code, 2);
  const [, limit, used] = /import: 40320: The quota keys .+ the limit is (\d+), the team has (\d+)/.exec(stopped.err)!;
  assert.equal([limit, used], [String(had + 450), String(had + 400)]);
  assert.match(stopped.out, /^400 keys read: 400 imported/);
  await quota(had + 10_000);
  const [, skip] = /go on with --skip (\d+)/.exec(stopped.err)!;
  const rest = await runImport('keys-large.ndjson', '--skip', skip!);
  assert.is(rest.code, 0, rest.err);
  assert.is((await stored()).keys, had + 3_000);
});

test.run();

function textOf(form: string, i: number): string {
  return `sk-${form}-${createHash('sha256').update(`${form} ${i}`).digest('base64url')}`;
}

async function writeFiles(): Promise<void> {
  const hash = (form: string, i: number, encoding: 'hex' | 'base64') =>
    createHash('sha256').update(textOf(form, i)).digest(encoding);
  await write('unkey.csv', 'id,hash,start,name,owner_id,meta,expires,enabled,remaining_requests', (i) => {
    const meta = i % 2 ? '"{""plan"":""pro, yearly""}"' : '\\N';
    return `key_${i},${hash('unkey', i, 'base64')},acme_3Z,"name ${i}",customer-unkey-${i},${meta},2099-01-02 03:04:05.678,1,100`;
  });
  await write('litellm.csv', 'token,key_alias,user_id,team_id,expires,metadata,blocked,rpm_limit', (i) => {
    return `${hash('litellm', i, 'hex')},alias-${i},customer-litellm-${i},team-${i % 10},,{},f,60`;
  });
  await write('keys.ndjson', '', (i) => {
    return JSON.stringify({ name: `n${i}`, key: textOf('keys', i), customerId: `customer-keys-${i}` });
  });
  const consumers = Array.from({ length: PER_FORM }, (_, i) => ({
    username: `customer-kong-${i}`,
    keyauth_credentials: [{ key: textOf('kong', i), tags: ['a "quoted" {tag}'] }],
  }));
  writeFileSync(
    join(folder, 'kong.json'),
    JSON.stringify({ _format_version: '3.0', services: [{ name: 's' }], consumers }, null, 1),
  );
}

async function write(name: string, head: string, lineOf: (i: number) => string): Promise<void> {
  const stream = createWriteStream(join(folder, name));
  if (head) stream.write(`${head}\n`);
  for (let i = 0; i < PER_FORM; i++) stream.write(`${lineOf(i)}\n`);
  stream.end();
  await once(stream, 'close');
}

function line(imported: number, existing: number): string {
  return `${PER_FORM} keys read: ${imported} imported, ${existing} imported before, 0 refused`;
}

/** Runs the command on a file; an object among the arguments is added to its environment. */
async function runImport(file: string, ...args: (string | Record<string, string>)[]) {
  const texts = args.filter((arg) => typeof arg === 'string');
  const env = { KEYTALLY_API_URL: world.api.url, KEYTALLY_TOKEN: world.team.token };
  const given = Object.assign(
    {},
    process.env,
    env,
    ...args.filter((arg) => typeof arg !== 'string'),
  ) as NodeJS.ProcessEnv;
  const command = ['apps/import/main.ts', '--from', join(folder, file), '--workspace', workspaceId, ...texts];
  const child = spawn(process.execPath, command, { env: given, stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  const [code] = (await once(child, 'close')) as [number];
  return { code, out, err };
}

async function stored() {
  const [row] = await world.sql<[{ keys: number; texts: number; lines: number; changes: number }]>`
    select (select count(*)::int from api_keys) as keys, (select count(*)::int from key_texts) as texts,
           (select count(*)::int from audit_log) as lines, (select max(id) from changes) as changes`;
  return { ...row };
}
