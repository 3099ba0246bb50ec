import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace, OUTBOX_GROUP } from '../../shared/stores/keyspace.ts';
import { keyShard } from '../../shared/values/key-text.ts';
import { makeCustomers, must } from '../helpers/customers.ts';
import { eventually, makeWorld } from '../helpers/world.ts';
import {
  isInSync,
  kill,
  pairOf,
  refuseReplicas,
  restart,
  startRedisCluster,
  takeOver,
  until,
  untilSlotsAreAt,
  type Member,
} from '../helpers/redis-cluster.ts';

// A server that loses its replica. cluster.e2e.test.ts has what is usual, the simulator a replica that takes over with older data.

const folder = mkdtempSync(join(tmpdir(), 'keytally-cluster-faults-'));

const members = await startRedisCluster(folder);
const seeds = members.map((member) => member.address).join(',');
const world = await makeWorld(['verify', 'consumer'], { REDIS_URL: `redis+cluster://${seeds}` });
const workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'faults' }))).body.workspace.id;
const customers = makeCustomers(world, workspaceId);

test('a debit that no replica had is not booked, and its repeated call is debited once after a failover', async () => {
  const { key, meter } = await customers.meteredKey('10');
  const shard = keyShard(key)!;
  const { primary, replica } = await pairOf(members, shard);
  await refuseReplicas(primary);
  const once = { headers: { 'Idempotency-Key': 'once' } };
  const body = { key, billing: { usage: '1' } };
  const balance = keyspace.billing(shard, workspaceId, meter);
  // On a busy machine its deadline may pass before it debits.
  await eventually('it is debited', async () => {
    const asked = await customers.verify(body, once);
    assert.equal([asked.status, asked.body.error.code], [503, 50305], asked.text);
    assert.match(asked.body.error.message, /may have been debited\. Repeat it with the same Idempotency-Key/);
    return primary.client.hget(balance, 'u');
  });
  await eventually('the consumer has read it again, or has finished it', () => isRead(primary, shard));
  await kill(primary);
  await takeOver(replica);
  assert.not.ok(await replica.client.hget(balance, 'u'));
  await untilSlotsAreAt(replica, members);
  await restart(primary);
  await until(() => isInSync(primary));
  for (const headers of [once.headers, { 'Idempotency-Key': 'after' }])
    assert.is((await must(200, customers.verify(body, { headers }))).body.status, 'VALID');
  const { id } = await customers.billing(meter);
  const path = `/api/v1/customer-billing/${id}/reconciliation`;
  const isExact = async () => (await world.call('get', path)).body.reconciliation?.status === 'EXACT';
  await eventually('the books are settled', isExact);
  assert.equal([(await customers.billing(meter)).usedCredits, await customers.usage(meter)], ['2', '2']);
});

/** Whether the consumer has read every waiting entry of an outbox at least twice, or has emptied it. */
async function isRead({ client }: Member, shard: number): Promise<boolean> {
  const pending = (await client.xpending(keyspace.outbox(shard), OUTBOX_GROUP, '-', '+', 10)) as unknown[][];
  const waiting = await client.xlen(keyspace.outbox(shard));
  return pending.length === waiting && pending.every((entry) => Number(entry[3]) > 1);
}
