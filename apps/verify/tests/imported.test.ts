import { randomBytes } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace, meterShard } from '../../../shared/stores/keyspace.ts';
import { isGone, readRecord } from '../../../shared/stores/records.ts';
import { hashForTeam, hashKeyText, hashShard, keyShard } from '../../../shared/values/key-text.ts';
import { must, joinWorkspace } from '../../../tests/helpers/world.ts';

// Imported keys live as our own do; the simulator changes, deletes and restores them.

const { world, workspaceId, customers } = await joinWorkspace();
const redis = world.redis.node(0).client;
const meter = await customers.newMeter({ totalCredits: '100' });

test('its text lives on for the grace of a rotation, with and without a meter, and no longer', async () => {
  for (const fields of [{}, { externalMeterId: meter }]) {
    const key = foreignOutside();
    const id = await importKey(key, fields);
    const rotated = (await must(200, rotate(id, { graceSeconds: 3_600 }))).body.apiKey.key as string;
    assert.is(keyShard(rotated), 'externalMeterId' in fields ? meterShard(workspaceId, meter) : homeOf(key));
    for (const text of [rotated, key]) assert.is((await answer(text)).apiKeyId, id);
    const [row] = await world.sql<[{ validUntil: number }]>`
      select valid_until from key_texts where key_id = ${id} and replaced_at is not null`;
    const record = await redis.get(stored(keyShard(rotated)!, key));
    assert.is(Number(readRecord('key', record!).validUntilMs), row.validUntil);
    for (const shard of [keyShard(rotated)!, homeOf(key)]) assert.ok((await redis.ttl(stored(shard, key))) > 3_600);
  }
});

test('a rotation without grace ends its text at once, in the shard of its hash too, and importing it again brings nothing back', async () => {
  const key = foreignOutside();
  const id = await importKey(key, { externalMeterId: meter });
  await must(200, rotate(id));
  assert.is((await answer(key)).status, 'INVALID');
  assert.equal(await gone(key), [true, true]);
  await world.sql`
    update key_texts set replaced_at = replaced_at - interval '26 hours' where key_id = ${id} and replaced_at is not null`;
  await world.sql`select remove_ended_secrets(1000)`;
  assert.is(await importKey(key, { externalMeterId: meter }, 'existing'), id);
  assert.is((await answer(key)).status, 'INVALID');
});

test('a key without a meter is given its first one for all its secrets, is billed from then on, and keeps it', async () => {
  const [own, imported] = [await customers.newKey(), foreignOutside()];
  const ids = [own.id, await importKey(imported)];
  const later = (await must(200, rotate(own.id, { graceSeconds: 3_600 }))).body.apiKey.key as string;
  const usage = async (key: string) => (await must(200, customers.verify({ key, billing: { usage: '1' } }))).body;
  for (const key of [own.key, later, imported]) assert.not.ok((await usage(key)).billing);
  for (const id of ids) {
    // Given again, it changes nothing.
    for (const name of ['billed', 'again']) {
      const { apiKey } = (await must(200, world.call('patch', pathOf(id), { externalMeterId: meter, name }))).body;
      assert.equal([apiKey.externalMeterId, apiKey.name], [meter, name]);
    }
    const other = await world.call('patch', pathOf(id), { externalMeterId: 'another' });
    assert.is(other.body.error.code, 40931);
  }
  const before = Number((await customers.billing(meter)).usedCredits);
  for (const [i, key] of [own.key, later, imported].entries()) {
    const { status, billing } = await usage(key);
    assert.equal([status, Number(billing.usedCredits)], ['VALID', before + i + 1]);
  }
  await must(200, rotate(own.id));
  for (const key of [own.key, later]) assert.is((await answer(key)).status, 'INVALID');
});

function foreign(): string {
  return `sk-${randomBytes(24).toString('hex')}`;
}

function foreignOutside(): string {
  const text = foreign();
  return homeOf(text) === meterShard(workspaceId, meter) ? foreignOutside() : text;
}

function homeOf(text: string): number {
  return hashShard(hashKeyText(text));
}

function nameOf(text: string): string {
  const hash = hashKeyText(text);
  return keyShard(text) === undefined ? hashForTeam(world.team.id, hash) : hash;
}

async function gone(key: string): Promise<boolean[]> {
  const shards = [homeOf(key), meterShard(workspaceId, meter)];
  const found = await Promise.all(shards.map((shard) => redis.get(stored(shard, key))));
  return found.map((record) => isGone(record ?? ''));
}

function stored(shard: number, key: string): string {
  return keyspace.keyText(shard, nameOf(key));
}

async function importKey(key: string, fields: object = {}, expected = 'imported'): Promise<string> {
  const item = { name: 'n', workspaceId, key, ...fields };
  const { results } = (await must(200, world.call('post', '/api/v1/api-key/import', { keys: [item] }))).body;
  assert.is(results[0].result, expected, JSON.stringify(results[0]));
  return results[0].apiKey.id;
}

async function answer(key: string) {
  return (await must(200, customers.verify({ key }))).body;
}

function rotate(id: string, body?: object) {
  return world.call('post', `${pathOf(id)}/rotate`, body);
}

function pathOf(id: string): string {
  return `/api/v1/workspace/${workspaceId}/api-key/${id}`;
}
