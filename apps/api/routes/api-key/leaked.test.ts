import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText, maskKeyText } from '../../../../shared/values/key-text.ts';
import { hearOutput } from '../../../../tests/helpers/world.ts';
import { callsOf, joinWorld, makeCustomers, must, newWorkspace, refused } from '../../tests/helpers/calls.ts';

const PATH = '/api/v1/api-key/leaked';
const NOTHING = { keys: [], accessTokens: [], linkTokens: [], notFound: [] };
const TOKEN = { name: 't', permissions: ['token:write', 'key:read'] };
const output = hearOutput();
const world = await joinWorld();

test('keys in a text are disabled at once, named by id and mask, and told by the audit log', async () => {
  const { by, newKey, pathOf, report, verify, workspaceId } = await newTeam();
  const [first, off] = [await newKey(), await newKey()];
  await by.change(pathOf(off), { enabled: false });
  const text = `GET /a?k=${first.key.replace('_', '%5F')} 200\n{"m":"\\n${first.key}"} ${off.key}`;
  const answer = await report(text);
  const results = Object.fromEntries(answer.keys.map(({ id, ...rest }: Key) => [id, rest]));
  assert.equal({ ...answer, keys: [] }, NOTHING);
  assert.equal(results, {
    [first.id]: { workspaceId, result: 'disabled', maskedKey: maskKeyText(first.key) },
    [off.id]: { workspaceId, result: 'was_disabled', maskedKey: maskKeyText(off.key) },
  });
  assert.is(await verify(first), 'DISABLED');
  const again = await report(text);
  assert.ok(again.keys.every(({ result }: { result: string }) => result === 'was_disabled'));
  const lines = await world.sql`
    select before, after from audit_log where resource_id = ${first.id} and operation = ${`POST ${PATH}`}`;
  assert.equal([lines.length, lines[0]!.before.enabled, lines[0]!.after.enabled], [1, true, false]);
  assert.not.ok(output().includes(first.key), 'the text is in no log');
});

test("another team's secrets, those of other workspaces and made-up ones all look the same, and stay as they are", async () => {
  const [ours, theirs] = [await newTeam(), await newTeam()];
  const [theirKey, inReach] = [await theirs.newKey(), await ours.newKey()];
  const { id: elsewhere } = await ours.by.make('/api/v1/workspace', { name: 'w' });
  const outside = await ours.by.make('/api/v1/api-key', { name: 'k', workspaceId: elsewhere });
  const { workspaceId } = ours;
  const limited = await world.newToken(ours.id, ['key:write', 'token:write'], [workspaceId]);
  const secrets = [theirKey.key, outside.key, makeKeyText('key', 5), theirs.token, ours.token];
  assert.equal(await reportBy(limited, [...secrets, inReach.key].join('\n')), {
    ...NOTHING,
    keys: [{ id: inReach.id, workspaceId, result: 'disabled', maskedKey: maskKeyText(inReach.key) }],
    notFound: secrets.map(maskKeyText),
  });
  assert.equal([await theirs.verify(theirKey), await ours.verify(outside)], ['VALID', 'VALID']);
});

test('a secret that a rotation replaced does no harm to its key, unless its grace lasts', async () => {
  const { by, newKey, pathOf, report, verify } = await newTeam();
  const [over, lasting, deleted] = [await newKey(), await newKey(), await newKey()];
  const fresh = await by.post(`${pathOf(over)}/rotate`, { graceSeconds: 0 });
  await by.post(`${pathOf(lasting)}/rotate`, { graceSeconds: 3600 });
  await by.remove(pathOf(deleted));
  const resultOf = async ({ key }: Key) => (await report(key)).keys[0].result;
  assert.is(await resultOf(over), 'replaced');
  assert.is(await verify(fresh), 'VALID');
  assert.is(await resultOf(lasting), 'disabled');
  assert.is(await resultOf(deleted), 'deleted');
});

test('tokens in a text are revoked by who may revoke them, with what they made, and reported by others', async () => {
  const { by, id, report, workspaceId } = await newTeam();
  const leaked = await by.make('/api/v1/access-token', TOKEN);
  const child = await callsOf(world, leaked.token).make('/api/v1/access-token', TOKEN);
  const link = await by.make('/api/v1/link-token', { workspaceId, customerId: 'c' });
  const text = `${leaked.token} ${link.token}`;
  const results = (result: string) => ({
    ...NOTHING,
    accessTokens: [{ id: leaked.id, result, maskedToken: maskKeyText(leaked.token) }],
    linkTokens: [{ id: link.id, result, maskedToken: maskKeyText(link.token) }],
  });
  assert.equal(await reportBy(await world.newToken(id, ['key:write']), text), results('reported'));
  assert.equal(await report(text), results('revoked'));
  assert.equal(await report(text), results('was_revoked'));
  const rows = await world.sql`
    select from access_tokens where id in (${leaked.id}, ${child.id}) and revoked_at is not null`;
  assert.is(rows.length, 2);
  assert.is(await by.read(`/api/v1/link-token/${link.token}`), false, 'it is not valid');
});

test('a token that revoked itself alone takes what it made along once its secret is reported', async () => {
  const { by, report } = await newTeam();
  const leaked = await by.make('/api/v1/access-token', TOKEN);
  const itself = callsOf(world, leaked.token);
  const child = await itself.make('/api/v1/access-token', TOKEN);
  await itself.remove(`/api/v1/access-token/${leaked.id}?descendants=false`);
  const told = { id: leaked.id, result: 'was_revoked', maskedToken: maskKeyText(leaked.token) };
  for (let i = 0; i < 2; i++) assert.equal(await report(leaked.token), { ...NOTHING, accessTokens: [told] });
  await refused(40102, callsOf(world, child.token).ask('get', '/api/v1/workspace'));
  const lines = await world.sql`
    select resource_id as id from audit_log
    where operation = ${`POST ${PATH}`} and resource_id in (${leaked.id}, ${child.id})`;
  assert.equal([...lines], [{ id: child.id }], 'the audit log has the one that was revoked');
});

test('at most 200 secrets may stand in a text', async () => {
  const texts = Array.from({ length: 201 }, () => makeKeyText('key', 1));
  const { token } = world.team;
  await refused(40016, world.call('post', PATH, { text: texts.join(' ') }));
  assert.is((await reportBy(token, texts.slice(1).join(' '))).notFound.length, 200);
  assert.equal(await reportBy(token, 'nothing'), NOTHING);
});

type Key = { id: string; key: string };

async function newTeam() {
  const { id, token } = await world.newTeam();
  const workspaceId = await newWorkspace(world, {}, { token });
  const { verify } = makeCustomers(world, workspaceId);
  const by = callsOf(world, token);
  return {
    id,
    token,
    by,
    workspaceId,
    newKey: (): Promise<Key> => by.make('/api/v1/api-key', { name: 'k', workspaceId }),
    pathOf: (key: Key) => `/api/v1/workspace/${workspaceId}/api-key/${key.id}`,
    report: (text: string) => reportBy(token, text),
    verify: async ({ key }: Key): Promise<string> => (await must(200, verify({ key }, { token }))).body.status,
  };
}

async function reportBy(token: string, text: string) {
  return (await must(200, world.call('post', PATH, { text }, { token }))).body;
}
