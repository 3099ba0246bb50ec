import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace, meterShard } from '../../../shared/stores/keyspace.ts';
import { isGone } from '../../../shared/stores/records.ts';
import { hashKeyText, hashShard, keyShard, makeKeyText } from '../../../shared/values/key-text.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { inTime, secondsUntil } from '../../../tests/helpers/in-time.ts';
import { untilOpen } from '../../../tests/helpers/own-redis.ts';
import { makeRebuildWorld, type RebuildWorld } from '../../../tests/helpers/rebuild-world.ts';
import { eventually } from '../../../tests/helpers/world.ts';

// Imported keys live as our own do. This file has a Redis of its own, to count what it is asked and to lose it.
let own: RebuildWorld;
const test = suite('the life of imported keys');
test.before(async () => {
  own = await makeRebuildWorld('imported', { BUS: 'redis' });
});
test.after(() => own?.stop());

test('unless its form is that of a key, a text costs Redis nothing; any other costs one read, however often it comes', async () => {
  await importKey(foreign());
  const free = ['', 'seven77', 'x'.repeat(513), 'with a blank', 'ümlaute-sind-es', mistyped()];
  const reads = await countReads(async () => {
    for (const key of free) assert.equal(await answer(key), { status: 'INVALID', reason: 'MALFORMED' });
  });
  assert.is(reads, 0);
  const unknown = foreign();
  for (const key of [unknown, unknown, makeKeyText('key', 9)]) {
    assert.is(await countReads(async () => assert.is((await answer(key)).status, 'INVALID')), 1);
  }
});

test('a key of our own and an imported one cost the same reads, with a meter one more the first time', async () => {
  const meter = await own.customers.newMeter({ totalCredits: '100' });
  const plain = await own.customers.newKey();
  const imported = foreign();
  await importKey(imported);
  const metered = foreignOutside(meter);
  await importKey(metered, { externalMeterId: meter });
  const first = async (key: string) => countReads(async () => assert.is((await answer(key)).status, 'VALID'));
  assert.equal([await first(plain.key), await first(imported), await first(metered)], [1, 1, 2]);
  assert.equal([await first(plain.key), await first(imported), await first(metered)], [0, 0, 0]);
});

test('it is disabled, deleted and rotated like one of ours, with and without a meter; its old text ends with the grace', async () => {
  const meter = await own.customers.newMeter({ totalCredits: '100' });
  for (const fields of [{}, { externalMeterId: meter }]) {
    const deleted = foreignOutside(meter);
    const other = await importKey(deleted, fields);
    const { key, id, rotated } = await inTime(8_000, async (until) => {
      const key = foreignOutside(meter);
      const id = await importKey(key, fields);
      assert.is((await answer(key)).status, 'VALID');
      await must(200, own.world.call('patch', pathOf(id), { enabled: false }));
      assert.is((await answer(key)).status, 'DISABLED');
      await must(200, own.world.call('patch', pathOf(id), { enabled: true }));
      const graceSeconds = secondsUntil(until);
      const rotated = (await must(200, rotate(id, { graceSeconds }))).body.apiKey;
      assert.is(keyShard(rotated.key), 'externalMeterId' in fields ? meterShard(own.workspaceId, meter) : homeOf(key));
      for (const text of [rotated.key, key]) assert.is((await answer(text)).apiKeyId, id);
      return { key, id, rotated };
    });
    await eventually('the grace has ended', async () => (await answer(key)).status === 'INVALID');
    const again = (await must(200, rotate(id))).body.apiKey;
    assert.equal([(await answer(rotated.key)).status, (await answer(again.key)).status], ['INVALID', 'VALID']);
    await must(200, own.world.call('delete', pathOf(other)));
    assert.is((await answer(deleted)).status, 'DELETED');
  }
});

test('a rotation without grace ends its text at once, in the shard of its hash too, and importing it again brings nothing back', async () => {
  const meter = await own.customers.newMeter({ totalCredits: '100' });
  const key = foreignOutside(meter);
  const id = await importKey(key, { externalMeterId: meter });
  await must(200, rotate(id));
  assert.is((await answer(key)).status, 'INVALID');
  for (const shard of [homeOf(key), meterShard(own.workspaceId, meter)]) {
    assert.ok(isGone((await own.redis.admin.get(keyspace.keyText(shard, hashKeyText(key)))) ?? ''));
  }
  await own.world.sql`
    update key_texts set replaced_at = replaced_at - interval '26 hours' where key_id = ${id} and replaced_at is not null`;
  await own.world.sql`select remove_ended_secrets(1000)`;
  assert.is(await importKey(key, { externalMeterId: meter }, 'existing'), id);
  assert.is((await answer(key)).status, 'INVALID');
});

test('a leaked one is found in a text, disabled and named without its secret', async () => {
  const [first, second, other] = [foreign(), `a.b~c!${foreign()}`, foreign()];
  const ids = [await importKey(first), await importKey(second)];
  const text = `GET /a?k=${first}&x=1 200\n{"Authorization":"Bearer ${second}"} ${other}`;
  const { body } = await must(200, own.world.call('post', '/api/v1/api-key/leaked', { text }));
  assert.equal(body.keys.map(({ id }: { id: string }) => id).toSorted(), ids.toSorted());
  assert.equal(body.notFound, []);
  for (const { maskedKey } of body.keys) assert.match(maskedKey, /^.{4}\*\*\*\*.{4}$/);
  for (const key of [first, second]) assert.is((await answer(key)).status, 'DISABLED');
});

test('it verifies again after Redis was emptied, and after a shard came back from before its import', async () => {
  const meter = await own.customers.newMeter({ totalCredits: '100' });
  const before = [foreign(), foreignOutside(meter)];
  await importKey(before[0]!);
  await importKey(before[1]!, { externalMeterId: meter });
  await own.redis.keep('before');
  await everyShardIsOpen();
  const after = [foreign(), foreignOutside(meter)];
  await importKey(after[0]!);
  await importKey(after[1]!, { externalMeterId: meter });
  await own.redis.comeBackAs('before');
  await everyShardIsOpen();
  for (const key of [...before, ...after]) assert.is((await answer(key)).status, 'VALID');
  await own.redis.admin.flushall();
  await everyShardIsOpen();
  for (const key of [...before, ...after]) assert.is((await answer(key)).status, 'VALID');
});

test('it is refused once its workspace is deleted, and leaves Redis, the shard of its hash too', async () => {
  const { workspace } = (await must(201, own.world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  const meter = 'meter-of-a-deleted-workspace';
  const key = foreignOutside(meter, workspace.id);
  await importKey(key, { externalMeterId: meter, workspaceId: workspace.id });
  assert.is((await answer(key)).status, 'VALID');
  await must(200, own.world.call('delete', `/api/v1/workspace/${workspace.id}`));
  assert.is((await answer(key)).status, 'INVALID');
  for (const shard of [homeOf(key), meterShard(workspace.id, meter)]) {
    const name = keyspace.keyText(shard, hashKeyText(key));
    await eventually('it has left', async () => isGone((await own.redis.admin.get(name)) ?? ''));
  }
});

test.run();

function foreign(): string {
  return `sk-${randomBytes(24).toString('base64url')}`;
}

/** One whose hash is not in the shard of a meter. */
function foreignOutside(meter: string, workspaceId = own.workspaceId): string {
  const text = foreign();
  return homeOf(text) === meterShard(workspaceId, meter) ? foreignOutside(meter, workspaceId) : text;
}

function homeOf(text: string): number {
  return hashShard(hashKeyText(text));
}

function mistyped(): string {
  const text = makeKeyText('key', 3);
  return text.slice(0, -1) + (text.endsWith('0') ? '1' : '0');
}

/** Imports a key; gives its id. */
async function importKey(key: string, fields: object = {}, expected = 'imported'): Promise<string> {
  const item = { name: 'n', workspaceId: own.workspaceId, key, ...fields };
  const { results } = (await must(200, own.world.call('post', '/api/v1/api-key/import', { keys: [item] }))).body;
  assert.is(results[0].result, expected, JSON.stringify(results[0]));
  return results[0].apiKey.id;
}

async function answer(key: string) {
  return (await must(200, own.customers.verify({ key }))).body;
}

function rotate(id: string, body?: object) {
  return own.world.call('post', `${pathOf(id)}/rotate`, body);
}

function pathOf(id: string): string {
  return `/api/v1/workspace/${own.workspaceId}/api-key/${id}`;
}

function everyShardIsOpen(): Promise<void> {
  return untilOpen(own.redis, own.world.api.url, own.world.verify!.url);
}

/** How many records of keys Redis was asked for meanwhile. */
async function countReads(work: () => Promise<void>): Promise<number> {
  const { hostname, port } = new URL(own.redis.url);
  const socket = connect(Number(port), hostname).setEncoding('utf8');
  let seen = '';
  socket.on('data', (text: string) => (seen += text)).write('MONITOR\r\n');
  await eventually('it is told', async () => seen.startsWith('+OK'));
  await work();
  await own.redis.admin.echo('counted');
  await eventually('all is told', async () => seen.includes('"counted"'));
  socket.destroy();
  return [...seen.matchAll(/"get" "\{\d\d\}:k:/gi)].length;
}
