import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ApiError } from '../../../shared/contract/errors.ts';
import { addressListName, packStoredList } from '../../../shared/stores/address-lists.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { packAddressList } from '../../../shared/values/address-list.ts';
import { keyShard, shardOf } from '../../../shared/values/key-text.ts';
import { makeAddressLists } from '../../../shared/verification/address-lists.ts';
import { makeTestClock } from '../../../tests/helpers/clock.ts';
import { makeCustomers, must, newWorkspace, joinWorkspace } from '../../../tests/helpers/world.ts';

const { world, workspaceId, customers } = await joinWorkspace();
const { redis } = world;

test('a list of 1,000 holds its addresses and no others, and leaves Redis once it is removed', async () => {
  const many = Array.from({ length: 1_000 }, (_, i) => `2001:db8:${i.toString(16)}::${(7 * i).toString(16)}`);
  const id = await newWorkspace(world, { defaultAllowedIPs: many });
  const others = makeCustomers(world, id);
  const { key } = await others.newKey();
  for (const url of [world.verify.url, world.api.url])
    for (const [ip, reason] of Object.entries({ [many[999]!]: 'VALID', '2001:db8::1': 'IP_NOT_ALLOWED' }))
      assert.is(reasonIn(await others.verify({ key, ip }, { url })), reason, ip);
  await must(200, world.call('patch', `/api/v1/workspace/${id}`, { defaultAllowedIPs: [] }));
  assert.is(reasonIn(await others.verify({ key, ip: '192.0.2.1' })), 'VALID');
  const { client } = redis.node(shardOf(id));
  const list = keyspace.addressList(shardOf(id), id);
  assert.ok((await client.strlen(list)) < 100 && (await client.ttl(list)) > 0);
});

test('while the list that a record names is not in Redis, its verifications are 503, and plain keys go on', async () => {
  const { key, id } = await customers.newKey({ allowedIPs: ['192.0.2.0/24'] });
  const { client } = redis.node(keyShard(key)!);
  const name = keyspace.addressList(keyShard(key)!, id);
  const plain = await customers.newKey();
  const stored = (await client.getBuffer(name))!;
  for (const wrong of [undefined, Buffer.from(stored.toString('latin1').replace('\0\x01', '\0\x02'), 'latin1')]) {
    if (wrong) await client.set(name, wrong);
    else await client.del(name);
    const { status, body } = await customers.verify({ key, ip: '192.0.2.1' });
    assert.equal([status, body.error.code], [503, 50305]);
    assert.is(reasonIn(await customers.verify({ key: plain.key })), 'VALID');
  }
  await client.set(name, stored);
  assert.is(reasonIn(await customers.verify({ key, ip: '192.0.2.1' })), 'VALID');
  // From now on the process has it.
  await client.del(name);
  assert.is(reasonIn(await customers.verify({ key, ip: '203.0.113.1' })), 'IP_NOT_ALLOWED');
  await must(200, world.call('patch', `/api/v1/workspace/${workspaceId}/api-key/${id}`, { name: 'written again' }));
  assert.equal(await client.getBuffer(name).then((list) => list?.subarray(-5)), stored.subarray(-5));
});

test('calls that share the reading of a list do not share the deadline of the first', async () => {
  const list = packAddressList(['192.0.2.0/24']);
  await redis.node(3).client.set(keyspace.addressList(3, 'shared'), packStoredList(1, list));
  // The answer comes when the test wants it.
  const [gate, clock] = [Promise.withResolvers<void>(), makeTestClock()];
  const { client } = redis.node(3);
  const getBuffer = (name: string) => gate.promise.then(() => client.getBuffer(name));
  const node = () => ({ ...redis.node(3), client: { getBuffer } as unknown as typeof client });
  const lists = makeAddressLists({ ...redis, clock, node }, 20_000);
  const name = addressListName(3, 'shared', list);
  const late = lists.search(name, '192.0.2.1', clock.monotonic() - 20_000).catch((error: ApiError) => error.errorName);
  const inTime = lists.search(name, '192.0.2.1', clock.monotonic());
  await clock.advance(1);
  assert.is(await late, 'redis_unavailable');
  gate.resolve();
  assert.is(await inTime, true);
});

function reasonIn({ status, body, text }: { status: number; body: any; text: string }): string {
  assert.is(status, 200, text);
  return body.reason ?? body.status;
}
