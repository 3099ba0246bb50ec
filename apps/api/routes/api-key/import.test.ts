import { createHash, randomBytes } from 'node:crypto';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText, maskKeyText } from '../../../../shared/values/key-text.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { wireToPostgres } from '../../../../tests/helpers/postgres/statements.ts';
import { joinWorld, outputListeners, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/api-key/import';
let world: World;
let workspaceId: string;
let customers: Customers;
let output = '';
const hear = (text: string) => void (output += text);
const test = suite('imported keys');
test.before(async () => {
  outputListeners.add(hear);
  world = await joinWorld();
  workspaceId = await newWorkspace();
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  outputListeners.delete(hear);
  await world?.stop();
});

test('a key verifies right after its import, from its text and from its hash in each form', async () => {
  const texts = Array.from({ length: 8 }, foreign);
  const secrets = [
    { key: texts[0] },
    { hash: hashOf(texts[1]!, 'hex') },
    { hash: { ...hashOf(texts[2]!, 'hex'), value: sha256(texts[2]!).toString('hex').toUpperCase() } },
    { hash: hashOf(texts[3]!, 'base64') },
    { hash: { ...hashOf(texts[4]!, 'base64'), value: sha256(texts[4]!).toString('base64').replace('=', '') } },
    { hash: { ...hashOf(texts[5]!, 'base64'), value: sha256(texts[5]!).toString('base64url') } },
    { key: (texts[6] = '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~' + foreign()) },
    { key: (texts[7] = makeKeyText('other', 17)) },
  ];
  const results = await importKeys(secrets.map((secret, i) => ({ ...secret, customerId: `customer-${i}` })));
  for (const [i, { result, apiKey }] of results.entries()) {
    assert.is(result, 'imported');
    const { body } = await verify(texts[i]!);
    assert.equal([body.status, body.apiKeyId, body.customerId], ['VALID', apiKey.id, `customer-${i}`]);
  }
  assert.is(results[7]!.apiKey.maskedKey, maskKeyText(texts[7]));
});

test('an imported key has every field of a creation, and draws on the billing record of its meter', async () => {
  const path = `/api/v1/workspace/${workspaceId}`;
  await must(201, world.call('post', `${path}/scope`, { name: 's', representation: 'documents' }));
  const externalMeterId = await customers.newMeter({ totalCredits: '10' });
  const fields = {
    name: 'theirs',
    scopes: [{ representation: 'documents', read: true }],
    enabled: true,
    customerId: 'cus_1',
    prefix: 'acme',
    expiresAt: Date.now() + 3_600_000,
    externalMeterId,
    metadata: { plan: 'pro', 'n\u0000l': '\u0000' },
    rateLimitPerSecond: 100,
    allowedIPs: ['127.0.0.0/8'],
  };
  const [key, made] = [foreign(), await must(201, world.call('post', '/api/v1/api-key', { ...fields, workspaceId }))];
  const [{ apiKey }] = (await importKeys([{ ...fields, key }])) as [Result];
  const { id, maskedKey, createdAt, updatedAt } = apiKey;
  const { key: _, ...expected } = made.body.apiKey;
  assert.equal(apiKey, { ...expected, id, maskedKey, createdAt, updatedAt });
  assert.equal((await world.call('get', `${path}/api-key/${id}`)).body.apiKey, apiKey);
  for (const usedCredits of ['4', '8']) {
    const requestedScopes = [{ representation: 'documents', read: true }];
    const { body } = await customers.verify({ key, billing: { usage: '4' }, requestedScopes });
    assert.equal([body.status, body.billing.usedCredits, body.scopes.length], ['VALID', usedCredits, 1]);
  }
  const { body } = await customers.verify({ key, billing: { usage: '4' } });
  assert.equal([body.status, body.reason], ['USAGE_LIMITED', 'CREDITS_USED_UP']);
});

test('what is no secret is told in its place, and keeps no other item from its import', async () => {
  const good = foreign();
  const ours = makeKeyText('key', 3);
  const mistyped = ours.slice(0, -1) + (ours.endsWith('0') ? '1' : '0');
  const wrong: [object, number, string][] = [
    [{}, 40030, ''],
    [{ key: foreign(), hash: hashOf(foreign(), 'hex') }, 40030, ''],
    [{ key: 'x'.repeat(7) }, 40001, '/key'],
    [{ key: 'x'.repeat(513) }, 40001, '/key'],
    [{ key: 'with a blank' }, 40001, '/key'],
    [{ key: 'tabs\tand lines\n' }, 40001, '/key'],
    [{ key: 'nicht-für-jeden' }, 40001, '/key'],
    [{ key: 12345678 }, 40001, '/key'],
    [{ key: mistyped }, 40030, '/key'],
    [{ hash: { ...hashOf(good, 'hex'), algorithm: 'md5' } }, 40001, '/hash/algorithm'],
    [{ hash: { ...hashOf(good, 'hex'), encoding: 'base64' } }, 40030, '/hash/value'],
    [{ hash: { ...hashOf(good, 'base64'), encoding: 'hex' } }, 40030, '/hash/value'],
    [{ hash: { ...hashOf(good, 'hex'), value: 'a'.repeat(63) } }, 40030, '/hash/value'],
    [{ hash: { ...hashOf(good, 'hex'), value: 'g'.repeat(64) } }, 40030, '/hash/value'],
    [{ key: foreign(), name: '' }, 40001, '/name'],
    [{ key: foreign(), extra: 1 }, 40001, '/extra'],
    [{ key: foreign(), workspaceId: 'ws_unknown' }, 40302, ''],
    [{ key: foreign(), scopes: [{ representation: 'unknown', read: true }] }, 40003, '/scopes/0/representation'],
    [{ key: foreign(), expiresAt: Date.now() - 1 }, 40004, '/expiresAt'],
  ];
  const items = [...wrong.map(([item]) => item), null, 'text', { key: good }];
  const answer = await must(200, send(items));
  const { results } = answer.body;
  for (const [i, [item, code, path]] of wrong.entries()) {
    const { error } = results[i];
    assert.equal([error?.code, error?.details?.[0]?.path ?? ''], [code, path], JSON.stringify(item));
  }
  assert.equal(
    results.slice(-3).map((one: Result) => one.error?.code ?? one.result),
    [40001, 40001, 'imported'],
  );
  assert.is((await verify(good)).body.status, 'VALID');
  assert.not.ok(answer.text.includes(mistyped));
});

test('texts of 8 and of 512 characters are keys; a request has 1 to 100, in at most 64 KiB', async () => {
  const short = randomBytes(4).toString('hex');
  const texts = [short, `${foreign()}${'~'.repeat(512)}`.slice(0, 512)];
  const [first] = (await importKeys(texts.map((key) => ({ key })))) as [Result];
  for (const text of texts) assert.is((await verify(text)).body.status, 'VALID');
  assert.is(first.apiKey.maskedKey, '****', 'of a short secret nothing is shown');
  const keys = (count: number) => Array.from({ length: count }, () => ({ key: foreign() }));
  assert.equal((await importKeys(keys(100))).filter(({ result }) => result === 'imported').length, 100);
  for (const count of [0, 101]) assert.is((await send(keys(count))).body.error.code, 40001);
  const large = Array.from({ length: 100 }, () => ({ key: 'x'.repeat(512), customerId: 'c'.repeat(256) }));
  assert.is((await send(large)).body.error.code, 41301);
});

test('a secret that was imported is told and not made twice: in one request, again, and in two at once', async () => {
  const texts = Array.from({ length: 50 }, foreign);
  const before = await counted();
  const twice = await importKeys([{ key: texts[0] }, { hash: hashOf(texts[0]!, 'hex'), name: 'second' }]);
  assert.equal([twice[0]!.result, twice[1]!.result], ['imported', 'existing']);
  assert.equal(twice[1]!.apiKey, twice[0]!.apiKey, 'as it was made');
  const items = texts.map((key) => ({ key }));
  const runs = await Promise.all([importKeys(items), importKeys(items.toReversed()), importKeys(items)]);
  const ids = runs.map((results, i) => (i === 1 ? results.toReversed() : results).map(({ apiKey }) => apiKey.id));
  assert.equal(ids[0], ids[1]);
  assert.equal(ids[0], ids[2]);
  assert.is(runs.flat().filter(({ result }) => result === 'imported').length, 49);
  const after = await counted();
  assert.equal(after, { keys: before.keys + 50, texts: before.texts + 50, used: before.used + 50 });
  assert.ok((await importKeys(items)).every(({ result }) => result === 'existing'));
  assert.equal(await counted(), after, 'a second run changes nothing');
});

test('a secret of another team or workspace is taken, and nothing says whose it is', async () => {
  const [key, ours] = [foreign(), foreign()];
  const theirs = await world.newTeam();
  const their = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }, theirs))).body.workspace.id;
  await must(200, world.call('post', PATH, { keys: [{ name: 'n', workspaceId: their, key }] }, theirs));
  await importKeys([{ key: ours, workspaceId: await newWorkspace() }]);
  const results = await importKeys([{ key }, { hash: hashOf(key, 'hex') }, { key: ours }]);
  const taken = { error: { code: 40930, message: results[0]!.error!.message } };
  assert.equal(results, [taken, taken, taken]);
  assert.equal((await verify(key)).body, { status: 'INVALID', reason: 'MALFORMED' }, 'for us it is no key');
  assert.is((await customers.verify({ key }, theirs)).body.status, 'VALID');
});

test('imported keys count against the quota of keys, and a request beyond it stores nothing', async () => {
  const team = await world.newTeam();
  const workspace = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }, team))).body.workspace.id;
  await world.sql`insert into team_quotas (team_id, limits) values (${team.id}, ${world.sql.json({ keys: 3 })})`;
  const keys = (count: number) =>
    Array.from({ length: count }, () => ({ name: 'n', workspaceId: workspace, key: foreign() }));
  await must(200, world.call('post', PATH, { keys: keys(2) }, team));
  assert.is((await world.call('post', PATH, { keys: keys(2) }, team)).body.error.code, 40320);
  const { quota } = (await must(200, world.call('get', '/api/v1/quota', undefined, team))).body;
  assert.is(quota.keys.used, 2);
});

test('the statements of an import do not grow with its keys', async () => {
  const wire = await wireToPostgres(world.env.DATABASE_URL!);
  const api = await world.start('api', { DATABASE_URL: wire.url });
  const statementsOf = async (count: number) => {
    const keys = Array.from({ length: count }, () => ({ name: 'n', workspaceId, key: foreign() }));
    await must(200, world.call('post', api.url + PATH, { keys }));
    return wire.transactions.filter((one) => one.some((text) => text.includes('insert into api_keys'))).at(-1)!;
  };
  try {
    const [one, hundred] = [await statementsOf(1), await statementsOf(100)];
    assert.is(hundred.length, one.length);
    assert.ok(one.length <= 20, one.join('\n'));
  } finally {
    await api.stop();
    await wire.cut();
  }
});

test('the text of an imported key is in no answer, log, table or audit line', async () => {
  const key = foreign();
  const answer = await must(200, send([{ key }], { 'Idempotency-Key': 'import-once' }));
  await verify(key);
  const middle = key.slice(6, -6);
  assert.not.ok(answer.text.includes(middle));
  assert.not.ok(output.includes(middle));
  for (const table of ['api_keys', 'key_texts', 'audit_log', 'changes', 'idempotency_keys']) {
    const rows = await world.sql`select t::text as row from ${world.sql(table)} t`;
    assert.not.ok(
      rows.some(({ row }) => row.includes(middle)),
      table,
    );
  }
});

test.run();

type Result = {
  result?: 'imported' | 'existing';
  apiKey: { id: string; maskedKey: string } & Record<string, unknown>;
  error?: { code: number; message: string; details?: { path: string }[] };
};

function foreign(): string {
  return `sk-${randomBytes(16).toString('base64url')}`;
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function hashOf(text: string, encoding: 'hex' | 'base64') {
  return { algorithm: 'sha256', encoding, value: sha256(text).toString(encoding) };
}

async function send(items: unknown[], headers: Record<string, string> = {}) {
  const keys = items.map((item) =>
    typeof item === 'object' && item !== null ? { name: 'imported', workspaceId, ...item } : item,
  );
  return world.call('post', PATH, { keys }, { headers });
}

async function importKeys(items: object[]): Promise<Result[]> {
  return (await must(200, send(items))).body.results;
}

async function verify(key: string) {
  return must(200, customers.verify({ key }));
}

async function newWorkspace(): Promise<string> {
  return (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
}

async function counted() {
  const { team } = world;
  const [row] = await world.sql<[{ keys: number; texts: number; used: number }]>`
    select (select count(*)::int from api_keys where team_id = ${team.id}) as keys,
           (select count(*)::int from key_texts where team_id = ${team.id}) as texts,
           (select keys::int from team_usage where team_id = ${team.id}) as used`;
  return { ...row };
}
