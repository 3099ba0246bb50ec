import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyShard } from '../../shared/values/key-text.ts';
import {
  isInSync,
  kill,
  pairOf,
  restart,
  startRedisCluster,
  takeOver,
  until,
  type Member,
} from '../helpers/redis-cluster.ts';
import { eventually, makeCustomers, makeWorld, must, newWorkspace, once } from '../helpers/world.ts';

// Verification on six real servers, one of which is replaced by its replica. The simulator has a replica that takes over with older data.

const folder = mkdtempSync(join(tmpdir(), 'keytally-cluster-'));

const members = await startRedisCluster(folder);
const seeds = members.map((member) => member.address).join(',');
const world = await makeWorld(['verify', 'consumer'], { REDIS_URL: `redis+cluster://${seeds}` });
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);

test('keys, balances, holds and books are exact on every server', async () => {
  const limits = [{ name: 'daily', unit: 'requests', limit: 1000, per: 'day' }];
  const holders = new Set<Member>();
  while (holders.size < 3) {
    const meter = await customers.newMeter({ totalCredits: '5' });
    const { key } = await customers.newKey({ externalMeterId: meter, limits });
    const { primary } = await pairOf(members, keyShard(key)!);
    if (holders.has(primary)) continue;
    holders.add(primary);
    const holdId = await customers.hold({ key }, '2');
    assert.equal([await statusOf(key, '3'), await statusOf(key, '1')], ['VALID', 'USAGE_LIMITED']);
    await must(200, world.call('post', '/api/v1/usage/capture', { holdId, usage: '1' }));
    await world.booked();
    assert.equal([(await customers.billing(meter)).usedCredits, await customers.usage(meter)], ['4', '4']);
  }
});

test('a server that dies is replaced by its replica without a debit or a change that was answered being lost', async () => {
  const [dies, , , follower] = members as [Member, Member, Member, Member];
  const made = await Promise.all(Array.from({ length: 12 }, () => customers.meteredKey('10')));
  const disabled: string[] = [];
  for (const { key } of made) assert.is(await statusOf(key, '1'), 'VALID');
  for (const { id, key } of made.slice(0, 6)) {
    await must(200, world.call('patch', `/api/v1/workspace/${workspaceId}/api-key/${id}`, { enabled: false }));
    disabled.push(key);
  }
  await kill(dies);
  await takeOver(follower);
  // Alone it has no replica: its shards are closed until the one that died comes back as such.
  await eventually('its shards are closed', async () => !(await isReady()));
  await eventually('others are served', async () => (await fetch(`${world.verify!.url}/servingz`)).ok);
  await restart(dies);
  await until(() => isInSync(dies));
  await eventually('every shard is open again', isReady);

  for (const { key, meter } of made) {
    const isDisabled = disabled.includes(key);
    assert.is(await statusOf(key, '1'), isDisabled ? 'DISABLED' : 'VALID');
    assert.is((await customers.billing(meter)).usedCredits, isDisabled ? '1' : '2');
  }
  await world.booked();
  for (const { key, meter } of made) assert.is(await customers.usage(meter), disabled.includes(key) ? '1' : '2');
});

async function isReady(): Promise<boolean> {
  return (await fetch(`${world.verify!.url}/readyz`)).ok;
}

/** Repeats a call that was not decided, as a client does. */
async function statusOf(key: string, usage: string): Promise<string> {
  return (await must(200, customers.verify({ key, billing: { usage } }, { headers: once() }))).body.status;
}
