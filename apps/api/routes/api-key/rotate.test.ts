import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import { hashKeyText, keyShard } from '../../../../shared/values/key-text.ts';
import { makeBackground } from '../../tests/helpers/background.ts';
import { callsOf, column, joinWorld, must, newWorkspace, refused } from '../../tests/helpers/calls.ts';

const world = await joinWorld();
const { ask, read, make, post, change, remove } = callsOf(world);
const background = makeBackground(world);
const workspaceId = await newWorkspace(world, { name: 'Acme' });

type Key = { id: string; key: string };
const create = (body: object = {}): Promise<Key> => make('/api/v1/api-key', { name: 'Robot', workspaceId, ...body });
const pathOf = (key: { id: string }) => `/api/v1/workspace/${workspaceId}/api-key/${key.id}`;
const rotate = (key: { id: string }, body?: object): Promise<Key> => post(`${pathOf(key)}/rotate`, body);
const verify = async ({ key }: { key: string }) =>
  (await must(200, world.call('post', '/api/v1/api-key/verify', { key }))).body;
const statuses = async (keys: Key[]): Promise<string[]> => column(await Promise.all(keys.map(verify)), 'status');
const valid = (count: number) => Array<string>(count).fill('VALID');

function stored({ key }: Key) {
  const shard = keyShard(key)!;
  return { client: world.redis.node(shard).client, name: keyspace.keyText(shard, hashKeyText(key)) };
}

test('a rotated key has a new secret and all else as before; the old secret is INVALID at once', async () => {
  const { key: old, ...made } = await create({ prefix: 'acme', externalMeterId: 'm', metadata: { a: 1 } });
  await change(`/api/v1/workspace/${workspaceId}`, { defaultKeyPrefix: 'later' });
  const { key, ...rest } = (await rotate(made)) as Key & { updatedAt: string };
  assert.match(key, /^acme_/);
  assert.is.not(key, old);
  assert.is(keyShard(key), keyShard(old));
  assert.equal(rest, { ...made, maskedKey: `${key.slice(0, 9)}****${key.slice(-4)}`, updatedAt: rest.updatedAt });
  assert.equal(await read(pathOf(made)), rest);
  assert.is((await verify({ key })).status, 'VALID');
  assert.equal(await verify({ key: old }), { status: 'INVALID', reason: 'NOT_FOUND' });
});

test('during a grace, all secrets are one key with its limits; a rotation without grace ends it, even one that began days ago', async () => {
  const first = await create({ limits: [{ name: 'hourly', unit: 'requests', limit: 3, per: 'hour' }] });
  const secrets = [first, await rotate(first, { graceSeconds: 60 }), await rotate(first, { graceSeconds: 604_800 })];
  for (const one of secrets) assert.is((await verify(one)).apiKeyId, first.id);
  assert.equal(await statuses(secrets), Array(3).fill('RATE_LIMITED'));
  await change(pathOf(first), { enabled: false, limits: null });
  assert.equal(await statuses(secrets), Array(3).fill('DISABLED'));
  await change(pathOf(first), { enabled: true });

  await world.sql`update key_texts set replaced_at = now() - interval '3 days' where key_id = ${first.id} and replaced_at is not null`;
  const last = await rotate(first, { graceSeconds: 0 });
  assert.equal(await statuses([...secrets, last]), ['INVALID', 'INVALID', 'INVALID', 'VALID']);
});

test('a key tells until when an earlier secret works, and ends it at once where that is asked, also once more for a Redis that missed it', async () => {
  const first = await create();
  const until = async () => (await read(pathOf(first))).earlierSecretsUntil as number | undefined;
  assert.is(await until(), undefined);
  const second = await rotate(first, { graceSeconds: 600 });
  const last = await rotate(first, { graceSeconds: 3600 });
  assert.ok(Math.abs((await until())! - Date.now() - 3_600_000) < 60_000);
  const { client, name } = stored(second);
  const record = (await client.get(name))!;
  const end = () => remove(`${pathOf(first)}/earlier-secrets`);
  assert.is((await end()).earlierSecretsUntil, undefined);
  assert.equal(await statuses([first, second, last]), ['INVALID', 'INVALID', 'VALID']);
  assert.is(await until(), undefined);
  // As if the process had died after the commit: asked again, it is in force before the answer.
  await client.set(name, record);
  await world.sql`update changes set applied_at = null where entity_id = ${first.id}`;
  await end();
  assert.equal(await statuses([second, last]), ['INVALID', 'VALID']);
  await remove(pathOf(first));
  await refused(40903, ask('delete', `${pathOf(first)}/earlier-secrets`));
});

test('at most 10 earlier secrets work beside the current one: a rotation ends the oldest grace', async () => {
  const secrets = [await create()];
  for (let i = 0; i < 11; i += 1) secrets.push(await rotate(secrets[0]!, { graceSeconds: 600 }));
  assert.equal(await statuses(secrets), ['INVALID', ...valid(11)]);
});

test('a replaced secret that a Redis still holds is removed by the next rotation, and days later by a replay', async () => {
  for (const isLongAgo of [false, true]) {
    const made = await create();
    const { client, name } = stored(made);
    const record = (await client.get(name))!;
    await rotate(made);
    // As if the process had died after the commit, or Redis come back as it was before.
    await client.set(name, record);
    assert.is((await verify(made)).status, 'VALID');
    if (isLongAgo) {
      const at = new Date(Date.now() - 3 * 86_400_000);
      await world.sql`update key_texts set replaced_at = ${at} where key_id = ${made.id} and replaced_at is not null`;
      await world.sql`update changes set applied_at = null, created_at = ${at} where entity_id = ${made.id}`;
      await background.sweep();
    } else {
      await world.sql`update changes set applied_at = null where entity_id = ${made.id}`;
      await rotate(made);
    }
    assert.is((await verify(made)).status, 'INVALID');
  }
});

test('concurrent rotations leave one secret that works', async () => {
  const made = await create();
  const rotated = await Promise.all(Array.from({ length: 6 }, () => rotate(made)));
  assert.equal((await statuses([made, ...rotated])).toSorted(), [...Array<string>(6).fill('INVALID'), 'VALID']);
});
