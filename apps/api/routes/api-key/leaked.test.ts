import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText, maskKeyText } from '../../../../shared/values/key-text.ts';
import { must, newWorkspace } from '../../../../tests/helpers/customers.ts';
import { joinWorld, outputListeners } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/api-key/leaked';
const NOTHING = { keys: [], accessTokens: [], linkTokens: [], notFound: [] };
let output = '';
const hear = (text: string) => void (output += text);
outputListeners.add(hear);
const world = await joinWorld();
test.after(() => void outputListeners.delete(hear));

test('keys in a text are disabled at once, named by id and mask, and told by the audit log', async () => {
  const { token } = await world.newTeam();
  const workspaceId = await newWorkspace(world, {}, { token });
  const first = await newKey(workspaceId, token);
  const off = await newKey(workspaceId, token);
  await must(200, world.call('patch', pathOf(workspaceId, off), { enabled: false }, { token }));
  const text = `GET /a?k=${first.key.replace('_', '%5F')} 200\n{"m":"\\n${first.key}"} ${off.key}`;
  const answer = await report(text, token);
  const results = Object.fromEntries(answer.keys.map(({ id, ...rest }: Key) => [id, rest]));
  assert.equal({ ...answer, keys: [] }, NOTHING);
  assert.equal(results, {
    [first.id]: { workspaceId, result: 'disabled', maskedKey: maskKeyText(first.key) },
    [off.id]: { workspaceId, result: 'was_disabled', maskedKey: maskKeyText(off.key) },
  });
  assert.is(await verifyKey(first, token), 'DISABLED');
  const again = await report(text, token);
  assert.ok(again.keys.every(({ result }: { result: string }) => result === 'was_disabled'));
  const lines = await world.sql`
    select before, after from audit_log where resource_id = ${first.id} and operation = ${`POST ${PATH}`}`;
  assert.equal(
    lines.map(({ before, after }) => [before.enabled, after.enabled]),
    [[true, false]],
  );
  assert.not.ok(output.includes(first.key), 'the text is in no log');
});

test("another team's secrets, those of other workspaces and made-up ones all look the same, and stay as they are", async () => {
  const theirs = await world.newTeam();
  const theirKey = await newKey(await newWorkspace(world, {}, { token: theirs.token }), theirs.token);
  const { token, id } = await world.newTeam();
  const ours = await newWorkspace(world, {}, { token });
  const [inReach, outside] = [await newKey(ours, token), await newKey(await newWorkspace(world, {}, { token }), token)];
  const limited = await world.newToken(id, ['key:write', 'token:write'], [ours]);
  const secrets = [theirKey.key, outside.key, makeKeyText('key', 5), theirs.token, token];
  assert.equal(await report([...secrets, inReach.key].join('\n'), limited), {
    ...NOTHING,
    keys: [{ id: inReach.id, workspaceId: ours, result: 'disabled', maskedKey: maskKeyText(inReach.key) }],
    notFound: secrets.map(maskKeyText),
  });
  assert.equal([await verifyKey(theirKey, theirs.token), await verifyKey(outside, token)], ['VALID', 'VALID']);
});

test('a secret that a rotation replaced does no harm to its key, unless its grace lasts', async () => {
  const { token } = await world.newTeam();
  const workspaceId = await newWorkspace(world, {}, { token });
  const rotated = async (key: Key, graceSeconds: number): Promise<Key> =>
    (await must(200, world.call('post', `${pathOf(workspaceId, key)}/rotate`, { graceSeconds }, { token }))).body
      .apiKey;
  const make = () => newKey(workspaceId, token);
  const [over, lasting, deleted] = [await make(), await make(), await make()];
  const fresh = await rotated(over, 0);
  await rotated(lasting, 3600);
  await must(200, world.call('delete', pathOf(workspaceId, deleted), undefined, { token }));
  const resultOf = async ({ key }: Key) => (await report(key, token)).keys[0].result;
  assert.is(await resultOf(over), 'replaced');
  assert.is(await verifyKey(fresh, token), 'VALID');
  assert.is(await resultOf(lasting), 'disabled');
  assert.is(await resultOf(deleted), 'deleted');
});

test('tokens in a text are revoked by who may revoke them, with what they made, and reported by others', async () => {
  const { token: admin, id } = await world.newTeam();
  const leaked = await newToken(admin);
  const child = await newToken(leaked.token);
  const ofCustomer = { workspaceId: await newWorkspace(world, {}, { token: admin }), customerId: 'c' };
  const link = (await must(201, world.call('post', '/api/v1/link-token', ofCustomer, { token: admin }))).body.linkToken;
  const text = `${leaked.token} ${link.token}`;
  const results = (result: string) => ({
    ...NOTHING,
    accessTokens: [{ id: leaked.id, result, maskedToken: maskKeyText(leaked.token) }],
    linkTokens: [{ id: link.id, result, maskedToken: maskKeyText(link.token) }],
  });
  assert.equal(await report(text, await world.newToken(id, ['key:write'])), results('reported'));
  assert.equal(await report(text, admin), results('revoked'));
  assert.equal(await report(text, admin), results('was_revoked'));
  const rows = await world.sql`
    select from access_tokens where id in (${leaked.id}, ${child.id}) and revoked_at is not null`;
  assert.is(rows.length, 2);
  const asked = await world.call('get', `/api/v1/link-token/${link.token}`, undefined, { token: admin });
  assert.is(asked.body.valid, false);
});

test('a token that revoked itself alone takes what it made along once its secret is reported', async () => {
  const { token: admin } = await world.newTeam();
  const leaked = await newToken(admin);
  const child = await newToken(leaked.token);
  await must(200, world.call('delete', `/api/v1/access-token/${leaked.id}?descendants=false`, undefined, leaked));
  const told = { id: leaked.id, result: 'was_revoked', maskedToken: maskKeyText(leaked.token) };
  for (let i = 0; i < 2; i++) assert.equal(await report(leaked.token, admin), { ...NOTHING, accessTokens: [told] });
  assert.is((await world.call('get', '/api/v1/workspace', undefined, child)).status, 401);
  const lines = await world.sql`
    select resource_id as id from audit_log
    where operation = ${`POST ${PATH}`} and resource_id in (${leaked.id}, ${child.id})`;
  assert.equal([...lines], [{ id: child.id }], 'the audit log has the one that was revoked');
});

test('at most 200 secrets may stand in a text', async () => {
  const texts = Array.from({ length: 201 }, () => makeKeyText('key', 1));
  assert.is((await world.call('post', PATH, { text: texts.join(' ') })).body.error.code, 40016);
  assert.is((await report(texts.slice(1).join(' '))).notFound.length, 200);
  assert.equal(await report('nothing'), NOTHING);
});

type Key = { id: string; key: string };

function pathOf(workspaceId: string, { id }: Key): string {
  return `/api/v1/workspace/${workspaceId}/api-key/${id}`;
}

async function newKey(workspaceId: string, token: string): Promise<Key> {
  return (await must(201, world.call('post', '/api/v1/api-key', { name: 'k', workspaceId }, { token }))).body.apiKey;
}

async function newToken(token: string): Promise<{ id: string; token: string }> {
  const body = { name: 't', permissions: ['token:write', 'key:read'] };
  return (await must(201, world.call('post', '/api/v1/access-token', body, { token }))).body.accessToken;
}

async function report(text: string, token = world.team.token) {
  return (await must(200, world.call('post', PATH, { text }, { token }))).body;
}

async function verifyKey({ key }: Key, token: string): Promise<string> {
  const url = `${world.verify.url}/api/v1/api-key/verify`;
  return (await must(200, world.call('post', url, { key }, { token }))).body.status;
}
