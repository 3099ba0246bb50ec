import { createHash, randomBytes } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText, maskKeyText } from '../../../../shared/values/key-text.ts';
import { hearOutput } from '../../../../tests/helpers/world.ts';
import { callsOf, column, columns, must, newWorkspace, refused, joinWorkspace } from '../../tests/helpers/calls.ts';

const PATH = '/api/v1/api-key/import';
const output = hearOutput();
const { world, workspaceId, customers } = await joinWorkspace();
const { ask, read, make, post, remove } = callsOf(world);

test('a key verifies right after its import, from its text and from its hash in each form', async () => {
  const ours = makeKeyText('other', 17);
  const forms: [text: string, secretOf: (text: string) => object][] = [
    [foreign(), (key) => ({ key })],
    ['!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~' + foreign(), (key) => ({ key })],
    [ours, (key) => ({ key })],
    [foreign(), (text) => ({ hash: hashOf(text, 'hex') })],
    [foreign(), (text) => ({ hash: hashOf(text, 'hex', sha256(text).toString('hex').toUpperCase()) })],
    [foreign(), (text) => ({ hash: hashOf(text, 'base64') })],
    [foreign(), (text) => ({ hash: hashOf(text, 'base64', sha256(text).toString('base64').replace('=', '')) })],
    [foreign(), (text) => ({ hash: hashOf(text, 'base64', sha256(text).toString('base64url')) })],
  ];
  const results = await importKeys(forms.map(([text, secretOf], i) => ({ ...secretOf(text), customerId: `c-${i}` })));
  for (const [i, { result, apiKey }] of results.entries()) {
    const { status, apiKeyId, customerId } = await verify(forms[i]![0]);
    assert.equal([result, status, apiKeyId, customerId], ['imported', 'VALID', apiKey.id, `c-${i}`]);
  }
  assert.is(results[2]!.apiKey.maskedKey, maskKeyText(ours));
});

test('an imported key has every field of a creation, and draws on the billing record of its meter', async () => {
  const path = `/api/v1/workspace/${workspaceId}`;
  await make(`${path}/scope`, { name: 's', representation: 'documents' });
  const scopes = [{ representation: 'documents', read: true }];
  const fields = {
    name: 'theirs',
    scopes,
    enabled: true,
    customerId: 'cus_1',
    prefix: 'acme',
    expiresAt: Date.now() + 3_600_000,
    externalMeterId: await customers.newMeter({ totalCredits: '10' }),
    metadata: { plan: 'pro', 'n\u0000l': '\u0000' },
    rateLimitPerSecond: 100,
    allowedIPs: ['127.0.0.0/8'],
  };
  const key = foreign();
  const { key: _, ...expected } = await make('/api/v1/api-key', { ...fields, workspaceId });
  const [{ apiKey }] = (await importKeys([{ ...fields, key }])) as [Result];
  const { id, maskedKey, createdAt, updatedAt } = apiKey;
  assert.equal(apiKey, { ...expected, id, maskedKey, createdAt, updatedAt });
  assert.equal(await read(`${path}/api-key/${id}`), apiKey);
  const other = await newWorkspace(world, { defaultExpiration: 3_600 });
  const [{ apiKey: passing }] = (await importKeys([{ key: foreign(), workspaceId: other }])) as [Result];
  const left = (passing.expiresAt as number) - Date.now();
  assert.ok(left > 0 && left <= 3_600_000, `${left} ms`);
  for (const outcome of ['VALID 4 1', 'VALID 8 1', 'CREDITS_USED_UP']) {
    const { body } = await customers.verify({ key, billing: { usage: '4' }, requestedScopes: scopes });
    assert.is(body.reason ?? `${body.status} ${body.billing.usedCredits} ${body.scopes.length}`, outcome);
  }
});

test('what is no secret is told in its place, and keeps no other item from its import', async () => {
  const good = foreign();
  const ours = makeKeyText('key', 3);
  const mistyped = ours.slice(0, -1) + (ours.endsWith('0') ? '1' : '0');
  const wrong: [unknown, number, string][] = [
    [{}, 40030, ''],
    [{ key: foreign(), hash: hashOf(foreign(), 'hex') }, 40030, ''],
    [{ key: 'with a blank' }, 40001, '/key'],
    [{ key: 'nicht-für-jeden' }, 40001, '/key'],
    [{ key: mistyped }, 40030, '/key'],
    [{ key: 'correct-horse-battery-staple' }, 40031, '/key'],
    [{ key: '${ANON_KEY}', allowWeak: true }, 40030, '/key'],
    [{ key: foreign(), billing: {} }, 40001, '/externalMeterId'],
    [{ hash: hashOf(good, 'base64', sha256(good).toString('hex')) }, 40030, '/hash/value'],
    [{ hash: hashOf(good, 'hex', sha256(good).toString('base64')) }, 40030, '/hash/value'],
    [{ hash: hashOf(good, 'hex', 'g'.repeat(64)) }, 40030, '/hash/value'],
    [{ key: foreign(), workspaceId: 'ws_unknown' }, 40302, ''],
    [{ key: foreign(), scopes: [{ representation: 'unknown', read: true }] }, 40003, '/scopes/0/representation'],
    [{ key: foreign(), expiresAt: Date.now() - 1 }, 40004, '/expiresAt'],
    [null, 40001, ''],
  ];
  const answer = await must(200, send([...wrong.map(([item]) => item), { key: good }]));
  const results = answer.body.results as Result[];
  for (const [i, [item, code, path]] of wrong.entries()) {
    const { error } = results[i]!;
    assert.equal([error?.code, error?.details?.[0]?.path ?? ''], [code, path], JSON.stringify(item));
  }
  assert.is(results.at(-1)!.result, 'imported');
  assert.is((await verify(good)).status, 'VALID');
  assert.not.ok(answer.text.includes(mistyped));
});

test('texts of 8 and of 512 characters are keys; a request has up to 100', async () => {
  const texts = [randomBytes(4).toString('hex'), `${foreign()}${'~'.repeat(512)}`.slice(0, 512)];
  const [first] = (await importKeys(texts.map((key) => ({ key, allowWeak: true })))) as [Result];
  for (const text of texts) assert.is((await verify(text)).status, 'VALID');
  assert.is(first.apiKey.maskedKey, '****', 'of a short secret nothing is shown');
  const keys = (count: number) => Array.from({ length: count }, () => ({ key: foreign() }));
  assert.ok((await importKeys(keys(100))).every(({ result }) => result === 'imported'));
});

test('a secret that was imported is told and not made twice: in one request, again, and in two at once', async () => {
  const texts = Array.from({ length: 50 }, foreign);
  const before = await counted();
  const twice = await importKeys([{ key: texts[0] }, { hash: hashOf(texts[0]!, 'hex'), name: 'second' }]);
  assert.equal([twice[0]!.result, twice[1]!.result], ['imported', 'existing']);
  assert.equal(twice[1]!.apiKey, twice[0]!.apiKey, 'as it was made');
  const items = texts.map((key) => ({ key }));
  const runs = await Promise.all([importKeys(items), importKeys(items.toReversed()), importKeys(items)]);
  runs[1].reverse();
  const [ids, ...others] = runs.map((results) => results.map(({ apiKey }) => apiKey.id));
  for (const other of others) assert.equal(other, ids);
  assert.is(runs.flat().filter(({ result }) => result === 'imported').length, 49);
  const after = { keys: before.keys + 50, texts: before.texts + 50, used: before.used + 50 };
  assert.equal(await counted(), after);
  assert.ok((await importKeys(items)).every(({ result }) => result === 'existing'));
  assert.equal(await counted(), after, 'a second run changes nothing');
});

test('a text may be a key of two teams, neither of which learns of the other; in another workspace of the team it is taken', async () => {
  const [key, inQuery, ours] = [`a.b~c!${foreign()}`, foreign(), foreign()];
  const theirs = await world.newTeam();
  const their = await newWorkspace(world, {}, theirs);
  const keys = [key, inQuery].map((one) => ({ name: 'n', workspaceId: their, key: one, customerId: 'theirs' }));
  await must(200, world.call('post', PATH, { keys }, theirs));
  assert.equal(await verify(key), { status: 'INVALID', reason: 'MALFORMED' }, 'for us it is no key');
  await importKeys([{ key: ours, workspaceId: await newWorkspace(world) }]);
  const results = await importKeys([{ key, customerId: 'ours' }, { hash: hashOf(key, 'hex') }, { key: ours }]);
  assert.equal(outcomesOf(results), ['imported', 'existing', 40930]);
  const customerOf = async (options?: { token: string }) =>
    (await must(200, customers.verify({ key }, options))).body.customerId;
  assert.equal([await customerOf(), await customerOf(theirs)], ['ours', 'theirs']);
  const { id } = results[0]!.apiKey;
  await remove(`/api/v1/workspace/${workspaceId}/api-key/${id}`);
  assert.equal([(await verify(key)).status, await customerOf(theirs)], ['DELETED', 'theirs']);
  const text = `GET /a?k=${inQuery}&x=1 200\n{"Authorization":"Bearer ${key}"}`;
  const { body } = await must(200, world.call('post', '/api/v1/api-key/leaked', { text }, theirs));
  assert.equal(column(body.keys, 'result'), ['disabled', 'disabled']);
  assert.match(body.keys[0].maskedKey, /^.{4}\*\*\*\*.{4}$/);
});

test('a key brings the record of its meter and its credits, once and with itself; what cannot be granted is no key either', async () => {
  const [first, second, third, unlimited, wrong] = [foreign(), foreign(), foreign(), foreign(), foreign()];
  const reset = Date.now() + 86_400_000;
  const schedule = { credits: '334', every: 'month', anchorAt: reset };
  const items = [
    { key: first, externalMeterId: 'own', billing: { credits: '90.5' } },
    { key: second, externalMeterId: 'shared', billing: { credits: '1', expiresAt: reset, schedule } },
    { key: third, externalMeterId: 'shared', billing: { credits: '2' } },
    { key: unlimited, externalMeterId: 'free', billing: { allowOverages: true } },
    { key: wrong, externalMeterId: 'free', billing: { credits: '5' } },
    { key: wrong, externalMeterId: 'none', billing: { credits: '9000000000', schedule } },
  ];
  assert.equal(outcomesOf(await importKeys(items)), [...Array(4).fill('imported'), 40932, 40006]);
  assert.ok((await importKeys(items.slice(0, 4))).every(({ result }) => result === 'existing'));
  const spend = async (key: string, usage: string) => {
    const { status, billing } = (await must(200, customers.verify({ key, billing: { usage } }))).body;
    return [status, billing.availableCredits];
  };
  assert.equal(await spend(first, '91'), ['USAGE_LIMITED', '90.5']);
  assert.equal(await spend(first, '0.5'), ['VALID', '90']);
  assert.equal(await spend(third, '0'), ['VALID', '3']);
  assert.equal(await spend(unlimited, '5'), ['VALID', '-5']);
  assert.is((await verify(wrong)).status, 'INVALID');
  const query = `workspaceId=${workspaceId}&externalMeterId=`;
  await refused(40404, ask('get', `/api/v1/customer-billing?${query}none`));
  const { id } = await read(`/api/v1/customer-billing?${query}shared`);
  const grants = columns(await read(`/api/v1/customer-billing/${id}/grants`), 'state', 'credits');
  const coming = ['PENDING 334', 'PENDING 334'];
  assert.equal(grants.map((one) => one.join(' ')).toSorted(), ['ACTIVE 1', 'ACTIVE 2', ...coming]);
  const token = await world.newToken(world.team.id, ['key:write']);
  const keys = [{ name: 'n', workspaceId, ...items[0], key: foreign() }];
  const { body } = await must(200, world.call('post', PATH, { keys }, { token }));
  assert.is(body.results[0].error.code, 40301);
});

test('a deleted key comes back where that is asked, with its first meter and its credits, and one whose secret was replaced does not', async () => {
  const [key, replaced] = [foreign(), foreign()];
  const made = await importKeys([{ key, customerId: 'cus_r' }, { key: replaced }]);
  const path = (i: number) => `/api/v1/workspace/${workspaceId}/api-key/${made[i]!.apiKey.id}`;
  await post(`${path(1)}/rotate`);
  for (const i of [0, 1]) await remove(path(i));
  assert.is((await importKeys([{ key }]))[0]!.result, 'existing');
  assert.is((await verify(key)).status, 'DELETED');
  const item = { key, name: 'again', restore: true, externalMeterId: 'restored', billing: { credits: '3' } };
  const back = await importKeys([item, { key: replaced, restore: true }, item]);
  assert.equal(column(back, 'result'), ['restored', 'existing', 'existing']);
  assert.equal(columns([back[0]!.apiKey], 'id', 'name', 'deleted'), [[made[0]!.apiKey.id, 'again', false]]);
  const spend = async () => (await must(200, customers.verify({ key, billing: { usage: '1' } }))).body;
  const { status, customerId, billing } = await spend();
  assert.equal([status, customerId, billing.availableCredits], ['VALID', 'cus_r', '2']);
  // It has had its credits: coming back again brings no more.
  await remove(path(0));
  assert.is((await importKeys([item]))[0]!.result, 'restored');
  assert.is((await spend()).billing.availableCredits, '1');
  await remove(path(0));
  const [other] = (await importKeys([{ ...item, externalMeterId: 'another' }])) as [Result];
  assert.is(other.error!.code, 40931);
  assert.is((await verify(key)).status, 'DELETED');
  assert.is((await verify(replaced)).status, 'INVALID');
});

test('the text of an imported key is in no answer, log, table or audit line', async () => {
  const key = foreign();
  const answer = await must(200, send([{ key }], { 'Idempotency-Key': 'import-once' }));
  await verify(key);
  const middle = key.slice(6, -6);
  assert.not.ok((answer.text + output()).includes(middle));
  for (const table of ['api_keys', 'key_texts', 'audit_log', 'changes', 'idempotency_keys']) {
    const found = await world.sql`select from ${world.sql(table)} t where strpos(t::text, ${middle}) > 0`;
    assert.is(found.length, 0, table);
  }
});

type Result = {
  result?: 'imported' | 'existing';
  apiKey: { id: string; maskedKey: string } & Record<string, unknown>;
  error?: { code: number; message: string; details?: { path: string }[] };
};

const outcomesOf = (results: Result[]) => results.map(({ result, error }) => result ?? error!.code);
const foreign = (): string => `sk-${randomBytes(16).toString('hex')}`;
const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();

function hashOf(text: string, encoding: 'hex' | 'base64', value = sha256(text).toString(encoding)) {
  return { algorithm: 'sha256', encoding, value };
}

async function send(items: unknown[], headers: Record<string, string> = {}) {
  const keys = items.map((item) => item && { name: 'imported', workspaceId, ...item });
  return world.call('post', PATH, { keys }, { headers });
}

const importKeys = async (items: object[]): Promise<Result[]> => (await must(200, send(items))).body.results;
const verify = async (key: string) => (await must(200, customers.verify({ key }))).body;

async function counted() {
  const { team } = world;
  const [row] = await world.sql<[{ keys: number; texts: number; used: number }]>`
    select (select count(*)::int from api_keys where team_id = ${team.id}) as keys,
           (select count(*)::int from key_texts where team_id = ${team.id}) as texts,
           (select (used ->> 'keys')::int from team_usage where team_id = ${team.id}) as used`;
  return { ...row };
}
