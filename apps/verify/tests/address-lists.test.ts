import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { addressListName, packStoredList } from '../../../shared/stores/address-lists.ts';
import { connectRedis } from '../../../shared/stores/redis.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeAddressLists } from '../../../shared/verification/address-lists.ts';
import type { ApiError } from '../../../shared/contract/errors.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { readRecord, packRecord } from '../../../shared/stores/records.ts';
import { packAddressList } from '../../../shared/values/address-list.ts';
import { ALL_SHARDS, hashKeyText, keyShard, shardOf } from '../../../shared/values/key-text.ts';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { inLongForm } from '../../../tests/helpers/long-form.ts';
import { makeOwnRedis, type OwnRedis } from '../../../tests/helpers/own-redis.ts';
import { eventually, makeWorld, type World } from '../../../tests/helpers/world.ts';

let own: OwnRedis;
let world: World;
let workspaceId: string;
let customers: Customers;
const test = suite('address lists');
const longTest = inLongForm(test);
test.before(async () => {
  own = await makeOwnRedis('address-lists');
  world = await makeWorld(['verify'], { REDIS_URL: own.url });
  workspaceId = await newWorkspace();
  customers = makeCustomers(world, workspaceId);
  await eventually('verify answers', async () => (await customers.verify({ key: '' })).status === 200);
});
test.after(async () => {
  await world?.stop();
  await own?.remove();
});

const many = Array.from({ length: 1_000 }, (_, i) => `2001:db8:${i.toString(16)}::${(7 * i).toString(16)}`);

longTest(
  'a list of 1,000 addresses takes less than 25 kB of Redis, for a workspace in all shards together as for a key',
  async () => {
    const before = await bytesOfAll();
    const id = await newWorkspace({ defaultAllowedIPs: many });
    const ofWorkspace = (await bytesOfAll()) - before;
    // Its defaults stand in every shard.
    assert.ok(ofWorkspace < 25_000 + 64 * 400, `a workspace takes ${ofWorkspace} bytes`);
    await customers.newKey({ allowedIPs: many });
    const ofKey = (await bytesOfAll()) - before - ofWorkspace;
    assert.ok(ofKey < 25_000, `a key takes ${ofKey} bytes`);
    await must(200, world.call('delete', `/api/v1/workspace/${id}`));
  },
);

test('a list holds its addresses and no others, on the key or as the default of the workspace, and the next call goes by a change', async () => {
  const id = await newWorkspace({ defaultAllowedIPs: many });
  const others = makeCustomers(world, id);
  const [byDefault, ofOwn] = [await others.newKey(), await others.newKey({ allowedIPs: ['198.51.100.0/24'] })];
  const every = { ...(await others.newKey({ allowedIPs: [] })) };
  const answers = async (key: { key: string }, ...addresses: string[]) => {
    const found = [];
    for (const url of [world.verify!.url, world.api.url, world.verify!.url])
      for (const ip of addresses) found.push(reasonIn(await others.verify({ key: key.key, ip }, { url })));
    return [...new Set(found)].join(' ');
  };
  assert.is(await answers(byDefault, many[0]!, many[500]!, many[999]!), 'VALID');
  assert.is(await answers(byDefault, '2001:db8::1', '198.51.100.7'), 'IP_NOT_ALLOWED');
  assert.is(await answers(ofOwn, '198.51.100.7'), 'VALID');
  assert.is(await answers(ofOwn, many[0]!), 'IP_NOT_ALLOWED');
  assert.is(await answers(every, '203.0.113.1'), 'VALID');
  for (const [list, address, other] of [
    [['192.0.2.1'], '192.0.2.1', many[0]!],
    [many, many[0]!, '192.0.2.1'],
  ] as const) {
    await must(200, world.call('patch', `/api/v1/workspace/${id}`, { defaultAllowedIPs: list }));
    assert.is(await answers(byDefault, address), 'VALID');
    assert.is(await answers(byDefault, other), 'IP_NOT_ALLOWED');
  }
  await must(200, world.call('patch', `/api/v1/workspace/${id}`, { defaultAllowedIPs: [] }));
  assert.is(await answers(byDefault, '192.0.2.1', many[0]!), 'VALID');
  const list = keyspace.addressList(shardOf(id), id);
  assert.ok((await own.admin.strlen(list)) < 100 && (await own.admin.ttl(list)) > 0, 'a removed list leaves Redis');
});

test('while the list that a record names is not in Redis, its verifications are 503, and plain keys go on', async () => {
  const { key, id } = await customers.newKey({ allowedIPs: ['192.0.2.0/24'] });
  const name = keyspace.addressList(keyShard(key)!, id);
  const plain = await customers.newKey();
  const stored = (await own.admin.getBuffer(name))!;
  for (const wrong of [undefined, Buffer.from(stored.toString('latin1').replace('\0\x01', '\0\x02'), 'latin1')]) {
    if (wrong) await own.admin.set(name, wrong);
    else await own.admin.del(name);
    const { status, body } = await customers.verify({ key, ip: '192.0.2.1' });
    assert.equal([status, body.error.code], [503, 50305]);
    assert.is(reasonIn(await customers.verify({ key: plain.key })), 'VALID');
  }
  await own.admin.set(name, stored);
  assert.is(reasonIn(await customers.verify({ key, ip: '192.0.2.1' })), 'VALID');
  // From now on the process has it.
  await own.admin.del(name);
  assert.is(reasonIn(await customers.verify({ key, ip: '203.0.113.1' })), 'IP_NOT_ALLOWED');
  await must(200, world.call('patch', `/api/v1/workspace/${workspaceId}/api-key/${id}`, { name: 'written again' }));
  assert.equal(await own.admin.getBuffer(name).then((list) => list?.subarray(-5)), stored.subarray(-5));
});

longTest(
  'while a list is missing, a call costs Redis no more than a round, once another has waited in vain',
  async () => {
    const { key, id } = await customers.newKey({ allowedIPs: ['192.0.2.0/24'] });
    await own.admin.del(keyspace.addressList(keyShard(key)!, id));
    const costs: number[] = [];
    for (let i = 0; i < 30; i++) {
      const before = await scriptsRun();
      assert.is((await customers.verify({ key, ip: '192.0.2.1' })).status, 503);
      costs.push((await scriptsRun()) - before);
    }
    // Every tenth of a second one call waits again, and other scripts run beside.
    assert.ok(Math.min(...costs) <= 3, `scripts of each call: ${costs.join(' ')}`);
  },
);

test('calls that share the reading of a list do not share the deadline of the first', async () => {
  const redis = connectRedis(own.url, makeLogger('test', 'error'), systemClock);
  await redis.connected(60_000);
  const list = packAddressList(['192.0.2.0/24']);
  const name = addressListName(3, 'shared', list);
  await own.admin.set(keyspace.addressList(3, 'shared'), packStoredList(1, list));
  const lists = makeAddressLists(redis, 20_000);
  process.kill(own.pid(), 'SIGSTOP');
  const late = lists.search(name, '192.0.2.1', performance.now() - 20_000).catch((error: ApiError) => error.errorName);
  const inTime = lists.search(name, '192.0.2.1', performance.now());
  assert.is(await late, 'redis_unavailable');
  process.kill(own.pid(), 'SIGCONT');
  assert.is(await inTime, true);
  await redis.close();
});

longTest(
  'calls that run beside changes of their list are never answered by another list than that of before or after',
  async () => {
    const id = await newWorkspace({ defaultAllowedIPs: ['192.0.2.1', '198.51.100.1'] });
    const others = makeCustomers(world, id);
    const keys = await Promise.all(Array.from({ length: 6 }, () => others.newKey()));
    let done = false;
    const calling = keys.map(async ({ key }) => {
      while (!done) {
        // The first address is in all lists, the second in none.
        const [inside, outside] = await Promise.all([
          others.verify({ key, ip: '192.0.2.1' }),
          others.verify({ key, ip: '203.0.113.1' }),
        ]);
        if (inside.status === 200) assert.is(reasonIn(inside), 'VALID');
        if (outside.status === 200) assert.is(reasonIn(outside), 'IP_NOT_ALLOWED');
        assert.ok(
          [200, 503].includes(inside.status) && [200, 503].includes(outside.status),
          inside.text + outside.text,
        );
      }
    });
    for (let i = 0; i < 12; i++)
      await must(
        200,
        world.call('patch', `/api/v1/workspace/${id}`, { defaultAllowedIPs: ['192.0.2.1', `198.51.100.${i + 2}`] }),
      );
    done = true;
    await Promise.all(calling);
  },
);

longTest('an emptied Redis gets every list again', async () => {
  const id = await newWorkspace({ defaultAllowedIPs: many });
  const others = makeCustomers(world, id);
  const keys = [await others.newKey(), await others.newKey({ allowedIPs: ['192.0.2.0/24'] })];
  await own.admin.flushall();
  // One that has never read these lists.
  const fresh = await world.start('verify');
  await eventually('both are decided', async () => {
    const answers = await Promise.all(keys.map(({ key }) => others.verify({ key, ip: many[3]! }, { url: fresh.url })));
    return answers.every(({ status }) => status === 200) && answers.map(reasonIn).join(' ') === 'VALID IP_NOT_ALLOWED';
  });
});

test('a record from before lists stood apart is never taken for one without a list: 503 until the new api has written it again', async () => {
  const inBlock = { allowedIPs: ['192.0.2.0/24'] };
  const listed = await customers.newKey(inBlock);
  const shard = keyShard(listed.key)!;
  const name = keyspace.keyText(shard, hashKeyText(listed.key));
  const record = readRecord('key', (await own.admin.get(name))!);
  await world.api.stop();
  // As the release before wrote it: the bits of 192.0.2.0/24, and a checkpoint that says nothing of a form.
  await own.admin.set(name, packRecord('key', { ...record, addressList: '4:110000000000000000000010' }));
  await own.admin.del(keyspace.addressList(shard, listed.id));
  const history = (await own.admin.hget(keyspace.meta(shard), 'history'))!;
  for (const one of ALL_SHARDS) {
    await own.admin.hset(keyspace.meta(one), { history: history.replace(/\/form \d+$/, '') });
    await own.admin.hincrby(keyspace.meta(one), 'writes', 1);
  }
  assert.is((await customers.verify({ key: listed.key, ip: '203.0.113.1' })).status, 503);
  assert.is((await customers.verify({ key: listed.key, ip: '192.0.2.1' })).status, 503);
  await world.start('api');
  await eventually('every shard is in the new form', async () => {
    const histories = await Promise.all(ALL_SHARDS.map((one) => own.admin.hget(keyspace.meta(one), 'history')));
    return histories.every((one) => one === history);
  });
  assert.is(reasonIn(await customers.verify({ key: listed.key, ip: '192.0.2.1' })), 'VALID');
  assert.is(reasonIn(await customers.verify({ key: listed.key, ip: '203.0.113.1' })), 'IP_NOT_ALLOWED');
  const list = packAddressList(inBlock.allowedIPs);
  const { addressList } = readRecord('key', (await own.admin.get(name))!);
  assert.is(addressList, addressListName(shard, listed.id, list));
});

test.run();

async function scriptsRun(): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await own.admin.info('commandstats'))?.[1]);
}

async function newWorkspace(fields: object = {}): Promise<string> {
  return (await must(201, world.call('post', '/api/v1/workspace', { name: 'lists', ...fields }))).body.workspace.id;
}

async function bytesOfAll(): Promise<number> {
  let bytes = 0;
  for (const name of await own.admin.keys('{??}:[kwa]:*'))
    bytes += (await own.admin.memory('USAGE', name, 'SAMPLES', 0)) ?? 0;
  return bytes;
}

function reasonIn({ status, body, text }: { status: number; body: any; text: string }): string {
  assert.is(status, 200, text);
  return body.reason ?? body.status;
}
