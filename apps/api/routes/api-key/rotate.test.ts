import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { hashKeyText, keyShard } from '../../../../shared/values/key-text.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import { inTime, secondsUntil } from '../../../../tests/helpers/in-time.ts';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

let world: World;
let workspaceId: string;
const test = suite('rotation of API keys');
test.before(async () => {
  world = await makeWorld();
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Acme' })).body.workspace.id;
});
test.after(() => world?.stop());

const create = async (body: object = {}) =>
  (await world.call('post', '/api/v1/api-key', { name: 'Robot', workspaceId, ...body })).body.apiKey;
const pathOf = (key: { id: string }) => `/api/v1/workspace/${workspaceId}/api-key/${key.id}`;
const rotate = (key: { id: string }, body?: object, options = {}) =>
  world.call('post', `${pathOf(key)}/rotate`, body, options);
const verify = async (key: string) => (await world.call('post', '/api/v1/api-key/verify', { key })).body;

test('a rotated key has a new secret and all else as before; the old secret is INVALID at once', async () => {
  const { key: old, ...made } = await create({ prefix: 'acme', externalMeterId: 'm', metadata: { a: 1 } });
  await world.call('patch', `/api/v1/workspace/${workspaceId}`, { defaultKeyPrefix: 'later' });
  const answer = await rotate(made);
  assert.is(answer.status, 200, answer.text);
  const { key, ...rest } = answer.body.apiKey;
  assert.match(key, /^acme_/);
  assert.is.not(key, old);
  assert.is(keyShard(key), keyShard(old));
  assert.equal(rest, { ...made, maskedKey: `${key.slice(0, 9)}****${key.slice(-4)}`, updatedAt: rest.updatedAt });
  assert.equal((await world.call('get', pathOf(made))).body.apiKey, rest);
  assert.is((await verify(key)).status, 'VALID');
  assert.equal(await verify(old), { status: 'INVALID', reason: 'NOT_FOUND' });
});

test('during a grace, all secrets are the same key with one rate limit', async () => {
  const { secrets, answers } = await eventually('all are verified within a second', async () => {
    const made = await create({ rateLimitPerSecond: 1 });
    const secrets = [made];
    for (let i = 0; i < 2; i++) secrets.push((await rotate(made, { graceSeconds: 60 })).body.apiKey);
    const began = performance.now();
    const answers = await Promise.all(secrets.map(({ key }) => verify(key)));
    return performance.now() - began < 1_000 ? { secrets, answers } : undefined;
  });
  const [first] = secrets;
  assert.is(answers.filter(({ status }) => status === 'VALID').length, 1);
  assert.is(answers.filter(({ status }) => status === 'RATE_LIMITED').length, 2);
  for (const answer of answers) assert.is(answer.apiKeyId, first.id);
  await world.call('patch', pathOf(first), { enabled: false });
  for (const { key } of secrets) assert.is((await verify(key)).status, 'DISABLED');
});

test('a grace ends by itself', async () => {
  const { first, second, endsAt } = await inTime(8_000, async (until) => {
    const first = await create();
    const graceSeconds = secondsUntil(until);
    const second = (await rotate(first, { graceSeconds })).body.apiKey;
    const endsAt = Date.now() + graceSeconds * 1_000;
    assert.is((await verify(first.key)).status, 'VALID');
    return { first, second, endsAt };
  });
  await sleep(endsAt + 50 - Date.now());
  assert.is((await verify(first.key)).status, 'INVALID');
  assert.is((await verify(second.key)).status, 'VALID');
});

test('a rotation without grace ends all earlier graces, even one that began days ago', async () => {
  const first = await create();
  const second = (await rotate(first, { graceSeconds: 604_800 })).body.apiKey;
  await world.sql`update key_texts set replaced_at = now() - interval '3 days' where replaced_at is not null`;
  const third = (await rotate(first, { graceSeconds: 0 })).body.apiKey;
  for (const text of [first.key, second.key]) assert.is((await verify(text)).status, 'INVALID');
  assert.is((await verify(third.key)).status, 'VALID');
});

test('a secret whose grace is over does not stay in Redis forever', async () => {
  const first = await create();
  await rotate(first, { graceSeconds: 60 });
  const redis = new Redis(world.env['REDIS_URL']!);
  const seconds = await redis.ttl(keyspace.keyText(keyShard(first.key)!, hashKeyText(first.key)));
  redis.disconnect();
  assert.ok(seconds > 60 && seconds < 200_000, String(seconds));
});

test('a secret that was replaced long ago is removed from a Redis that still holds it', async () => {
  const made = await create();
  const redis = new Redis(world.env['REDIS_URL']!);
  const name = keyspace.keyText(keyShard(made.key)!, hashKeyText(made.key));
  const record = (await redis.get(name))!;
  await rotate(made);
  await redis.set(name, record);
  redis.disconnect();
  assert.is((await verify(made.key)).status, 'VALID');
  // As if neither the api nor Redis had run for days.
  const daysAgo = new Date(Date.now() - 3 * 86_400_000);
  await world.sql`update key_texts set replaced_at = ${daysAgo} where key_id = ${made.id} and replaced_at is not null`;
  await world.sql`
    update changes set applied_at = null, created_at = ${daysAgo} where entity_id = ${made.id}`;
  await eventually('the old text is INVALID', async () => (await verify(made.key)).status === 'INVALID');
});

test('a rotation after 2,500 others writes what the first one wrote, and those names leave Redis by themselves', async () => {
  const made = await create();
  const shard = keyShard(made.key)!;
  await world.sql`
    insert into key_texts (hash, team_id, key_id, replaced_at)
    select ${made.id} || i, ${world.team.id}, ${made.id}, now() - interval '1 hour' from generate_series(1, 2500) i`;
  const fresh = (await rotate(made)).body.apiKey.key;
  await world.call('patch', pathOf(made), { name: 'changed' });
  const redis = new Redis(world.env['REDIS_URL']!);
  const names = await redis.keys(keyspace.keyText(shard, `${made.id}*`));
  const lifetimes = await Promise.all(
    [made.key, fresh].map((text: string) => redis.ttl(keyspace.keyText(shard, hashKeyText(text)))),
  );
  redis.disconnect();
  assert.equal(names, []);
  assert.ok(lifetimes[0]! > 0 && lifetimes[0]! <= 60, `the old secret's tombstone stays ${lifetimes[0]} s`);
  assert.is(lifetimes[1], -1);
});

test('at most 10 earlier secrets work beside the current one: a rotation ends the oldest grace', async () => {
  const made = await create();
  const secrets = [made.key];
  for (let i = 0; i < 11; i += 1) secrets.push((await rotate(made, { graceSeconds: 600 })).body.apiKey.key);
  const found = await Promise.all(secrets.map(async (key) => (await verify(key)).status));
  assert.equal(found, ['INVALID', ...Array<string>(11).fill('VALID')]);
});

test('a rotation that was stored and not yet in force comes into force with the next one', async () => {
  const made = await create();
  const redis = new Redis(world.env['REDIS_URL']!);
  const name = keyspace.keyText(keyShard(made.key)!, hashKeyText(made.key));
  const record = (await redis.get(name))!;
  await rotate(made);
  // As if the process had died after the commit, just now.
  await redis.set(name, record);
  redis.disconnect();
  await world.sql`
    update changes set applied_at = null where entity_id = ${made.id} and id = (select max(id) from changes where entity_id = ${made.id})`;
  await rotate(made);
  assert.is((await verify(made.key)).status, 'INVALID');
});

test('concurrent rotations leave one secret that works', async () => {
  const made = await create();
  const answers = await Promise.all(Array.from({ length: 6 }, () => rotate(made)));
  const found = await Promise.all([made, ...answers.map((answer) => answer.body.apiKey)].map(({ key }) => verify(key)));
  assert.is(found.filter((answer) => answer.status === 'VALID').length, 1);
  assert.is(found.filter((answer) => answer.status === 'INVALID').length, 6);
});

test('an Idempotency-Key answers the same secret again, and that secret works', async () => {
  const made = await create();
  const headers = { 'Idempotency-Key': `rotate ${made.id}` };
  const first = await rotate(made, undefined, { headers });
  for (const body of [undefined, {}]) assert.is((await rotate(made, body, { headers })).text, first.text);
  assert.is((await verify(first.body.apiKey.key)).status, 'VALID');
  assert.is((await rotate(made, { graceSeconds: 1 }, { headers })).body.error.code, 40904);
});

test('the body is optional, and an error says which field is wrong', async () => {
  const made = await create();
  for (const [body, wrong] of [
    [{ graceSeconds: 604_801 }, '/graceSeconds'],
    [{ graceSeconds: -1 }, '/graceSeconds'],
    [{ graceSeconds: '60' }, '/graceSeconds'],
    [{ grace: 60 }, '/grace'],
    [[], ''],
  ] as const) {
    const answer = await rotate(made, body);
    assert.equal([answer.status, answer.body.error.details[0].path], [400, wrong], answer.text);
  }
  assert.is((await verify(made.key)).status, 'VALID');
});

test.run();
