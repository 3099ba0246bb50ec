import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Permission } from '../../../../shared/contract/caller.ts';
import { makeKeyText, maskKeyText } from '../../../../shared/values/key-text.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld, outputListeners, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/api-key/leaked';
const NOTHING = { keys: [], accessTokens: [], linkTokens: [], notFound: [] };
let world: World;
let output = '';
const hear = (text: string) => void (output += text);
const test = suite('leaked secrets');
test.before(async () => {
  outputListeners.add(hear);
  world = await joinWorld();
});
test.after(async () => {
  outputListeners.delete(hear);
  await world?.stop();
});

test('keys in a text are disabled at once, named by id and mask, and told by the audit log', async () => {
  const { token } = await world.newTeam();
  const workspaceId = await newWorkspace(token);
  const [first, second, off] = await newKeys(3, workspaceId, token);
  await must(200, world.call('patch', pathOf(workspaceId, off), { enabled: false }, { token }));
  const text = `GET /a?k=${first.key.replace('_', '%5F')} 200\n{"m":"\\n${second.key}"} ${first.key} ${off.key}`;
  const report = () => world.call('post', PATH, { text }, { token });
  const answer = await must(200, report());
  const entry = (key: Key, result: string) => ({ id: key.id, workspaceId, result, maskedKey: maskKeyText(key.key) });
  const expected = [entry(first, 'disabled'), entry(second, 'disabled'), entry(off, 'was_disabled')];
  assert.equal({ ...answer.body, keys: byId(answer.body.keys) }, { ...NOTHING, keys: byId(expected) });
  assert.equal([await verifyKey(first, token), await verifyKey(second, token)], ['DISABLED', 'DISABLED']);
  for (const key of [first, second, off]) assert.not.ok(answer.text.includes(key.key.slice(-20)));

  const again = await must(200, report());
  assert.ok(again.body.keys.every(({ result }: { result: string }) => result === 'was_disabled'));
  const { auditLog } = (
    await must(200, world.call('get', `/api/v1/audit-log?resourceId=${first.id}`, undefined, { token }))
  ).body;
  const lines = auditLog.filter(({ operation }: { operation: string }) => operation === `POST ${PATH}`);
  assert.equal(
    lines.map(({ before, after }: Record<'before' | 'after', { enabled: boolean }>) => [before.enabled, after.enabled]),
    [[true, false]],
  );
  assert.not.ok(output.includes(first.key), 'the text is in no log');
});

test("another team's secrets, those of other workspaces and made-up ones all look the same, and stay as they are", async () => {
  const theirs = await world.newTeam();
  const [theirKey] = await newKeys(1, await newWorkspace(theirs.token), theirs.token);
  const { token, id } = await world.newTeam();
  const [ours, other] = [await newWorkspace(token), await newWorkspace(token)];
  const [[inReach], [outside]] = [await newKeys(1, ours, token), await newKeys(1, other, token)];
  const limited = await world.newToken(id, ['key:write', 'token:write'], [ours]);
  const madeUp = makeKeyText('key', 5);
  const secrets = [theirKey.key, outside.key, madeUp, theirs.token, token];
  const report = () => world.call('post', PATH, { text: [...secrets, inReach.key].join('\n') }, { token: limited });
  const answer = await must(200, report());
  assert.equal(answer.body, {
    ...NOTHING,
    keys: [{ id: inReach.id, workspaceId: ours, result: 'disabled', maskedKey: maskKeyText(inReach.key) }],
    notFound: secrets.map(maskKeyText),
  });
  assert.equal([await verifyKey(theirKey, theirs.token), await verifyKey(outside, token)], ['VALID', 'VALID']);
});

test('a secret that a rotation replaced does no harm to its key, unless its grace lasts', async () => {
  const { token } = await world.newTeam();
  const workspaceId = await newWorkspace(token);
  const rotate = async (key: Key, graceSeconds: number): Promise<Key> =>
    (await must(200, world.call('post', `${pathOf(workspaceId, key)}/rotate`, { graceSeconds }, { token }))).body
      .apiKey;
  const [over, lasting, deleted] = await newKeys(3, workspaceId, token);
  const rotated = await rotate(over, 0);
  await rotate(lasting, 3600);
  await must(200, world.call('delete', pathOf(workspaceId, deleted), undefined, { token }));
  const resultOf = async (text: string) =>
    (await must(200, world.call('post', PATH, { text }, { token }))).body.keys[0].result;
  assert.is(await resultOf(over.key), 'replaced');
  assert.is(await verifyKey(rotated, token), 'VALID');
  assert.is(await resultOf(lasting.key), 'disabled');
  assert.is(await resultOf(deleted.key), 'deleted');
});

test('tokens in a text are revoked by who may revoke them, with what they made, and reported by others', async () => {
  const { token: admin, id } = await world.newTeam();
  const workspaceId = await newWorkspace(admin);
  const leaked = await newToken(admin);
  const child = await newToken(leaked.token);
  const link = (
    await must(201, world.call('post', '/api/v1/link-token', { workspaceId, customerId: 'c' }, { token: admin }))
  ).body.linkToken;
  const text = `${leaked.token} ${link.token}`;
  const report = async (token: string) => (await must(200, world.call('post', PATH, { text }, { token }))).body;
  const results = (result: string) => ({
    ...NOTHING,
    accessTokens: [{ id: leaked.id, result, maskedToken: maskKeyText(leaked.token) }],
    linkTokens: [{ id: link.id, result, maskedToken: maskKeyText(link.token) }],
  });
  const writer = await world.newToken(id, ['key:write']);
  assert.equal(await report(writer), results('reported'));
  assert.equal(await report(admin), results('revoked'));
  assert.equal(await report(admin), results('was_revoked'));
  const rows = await world.sql`
    select from access_tokens where id in (${leaked.id}, ${child.id}) and revoked_at is not null`;
  assert.is(rows.length, 2);
  assert.is(
    (await world.call('get', `/api/v1/link-token/${link.token}`, undefined, { token: admin })).body.valid,
    false,
  );
});

test('a token that revoked itself alone takes what it made along once its secret is reported', async () => {
  const { token: admin } = await world.newTeam();
  const leaked = await newToken(admin);
  const child = await newToken(leaked.token);
  await must(
    200,
    world.call('delete', `/api/v1/access-token/${leaked.id}?descendants=false`, undefined, { token: leaked.token }),
  );
  const report = async () => (await must(200, world.call('post', PATH, { text: leaked.token }, { token: admin }))).body;
  const answer = {
    ...NOTHING,
    accessTokens: [{ id: leaked.id, result: 'was_revoked', maskedToken: maskKeyText(leaked.token) }],
  };
  for (let i = 0; i < 2; i++) assert.equal(await report(), answer);
  assert.is((await world.call('get', '/api/v1/workspace', undefined, { token: child.token })).status, 401);
  const lines = await world.sql`
    select resource_id as id from audit_log
    where operation = ${`POST ${PATH}`} and resource_id in (${leaked.id}, ${child.id})`;
  assert.equal([...lines], [{ id: child.id }], 'the audit log has the one that was revoked');
});

test('a text has a bound, and so has what may stand in it', async () => {
  const texts = Array.from({ length: 201 }, () => makeKeyText('key', 1));
  for (const [body, code] of [
    [{ text: texts.join(' ') }, 40016],
    [{ text: texts.slice(1).join(' ') }, undefined],
    [{ text: 'a'.repeat(60_001) }, 40001],
    [{ text: '' }, 40001],
    [{}, 40001],
  ] as const)
    assert.is((await world.call('post', PATH, body)).body.error?.code, code);
  assert.equal((await must(200, world.call('post', PATH, { text: 'nothing' }))).body, NOTHING);
});

test.run();

type Key = { id: string; key: string };

function byId<Row extends { id: string }>(rows: Row[]): Row[] {
  return rows.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

async function newWorkspace(token: string): Promise<string> {
  return (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }, { token }))).body.workspace.id;
}

function pathOf(workspaceId: string, { id }: Key): string {
  return `/api/v1/workspace/${workspaceId}/api-key/${id}`;
}

async function newKeys(count: number, workspaceId: string, token: string): Promise<[Key, Key, Key]> {
  const keys: Key[] = [];
  const body = { name: 'k', workspaceId };
  for (let i = 0; i < count; i++)
    keys.push((await must(201, world.call('post', '/api/v1/api-key', body, { token }))).body.apiKey);
  return keys as [Key, Key, Key];
}

async function newToken(by: string): Promise<{ id: string; token: string }> {
  const permissions: Permission[] = ['token:write', 'key:read'];
  return (await must(201, world.call('post', '/api/v1/access-token', { name: 't', permissions }, { token: by }))).body
    .accessToken;
}

async function verifyKey({ key }: Key, token: string): Promise<string> {
  const url = `${world.verify!.url}/api/v1/api-key/verify`;
  return (await must(200, world.call('post', url, { key }, { token }))).body.status;
}
