import * as assert from 'uvu/assert';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import { keyspace, OUTBOX_GROUP } from '../../shared/stores/keyspace.ts';
import { makeCustomers, must, type TestKey } from './customers.ts';
import { eventually, makeWorld } from './world.ts';
import { makeOwnRedis } from './own-redis.ts';

export type RebuildWorld = Awaited<ReturnType<typeof makeRebuildWorld>>;

/** A test file's own world with a Redis of its own to lose, and what tells how balances and books came out of it. */
export async function makeRebuildWorld(name: string, settings: Record<string, string>) {
  const redis = await makeOwnRedis(name);
  const world = await makeWorld(['verify'], { REDIS_URL: redis.url, ...settings });
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name })).body;
  const customers = makeCustomers(world, workspace.id);
  let adjustments = 0;

  async function reconciliation({ meter }: TestKey) {
    const { id } = await customers.billing(meter);
    return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/reconciliation`))).body.reconciliation;
  }

  return {
    redis,
    world,
    customers,
    reconciliation,
    async spend({ key }: TestKey, usage: string) {
      const answer = await must(200, customers.verify({ key, billing: { usage } }));
      assert.is(answer.body.status, 'VALID', answer.text);
      return answer.body;
    },
    async adjust({ meter }: TestKey, amount: string): Promise<void> {
      const { id } = await customers.billing(meter);
      const path = `/api/v1/customer-billing/${id}/adjustment`;
      const headers = { 'Idempotency-Key': `key-${adjustments++}` };
      await must(201, world.call('post', path, { amount, reason: 'a test' }, { headers }));
    },
    async used({ meter }: TestKey): Promise<string> {
      return (await customers.billing(meter)).usedCredits;
    },
    untilValid({ key }: TestKey): Promise<unknown> {
      const isValid = async () => (await customers.verify({ key })).body.status === 'VALID';
      return eventually('verified again', isValid);
    },
    async booked({ meter }: TestKey, credits: number): Promise<void> {
      await eventually(`${credits} are in the books`, async () => Number(await customers.usage(meter)) === credits);
    },
    /** The books are exact, and tell of losses of so many credits. */
    async isExact(one: TestKey, lost: string[] = []): Promise<void> {
      const found = await reconciliation(one);
      const losses = found.losses.map(({ credits }: { credits: string }) => credits);
      // What untilValid verified may be lost: it cost nothing.
      const told = losses.filter((credits: string) => credits !== '0');
      assert.equal([found.status, found.difference, found.gaps, told], ['EXACT', '0', [], lost], JSON.stringify(found));
      assert.is(found.lastBalance, found.usedCredits);
    },
    /** How many entries of the outboxes a carrier has been given and not yet delivered. */
    pending: () => inAll(async (outbox) => (await redis.admin.xpending(outbox, OUTBOX_GROUP).catch(() => [0]))[0]),
    /** How many entries the outboxes hold. */
    waiting: () => inAll((outbox) => redis.admin.xlen(outbox)),
    /** Waits until the shards that were lost are being filled again. */
    async untilBuilt(): Promise<void> {
      const isBuilding = async () => (await redis.admin.hget(keyspace.meta(63), 'build')) !== null;
      await eventually('a builder is at work', isBuilding);
    },
    async stop() {
      await world.stop();
      await redis.remove();
    },
  };
}

async function inAll(count: (outbox: string) => Promise<unknown>): Promise<number> {
  const counts = await Promise.all(ALL_SHARDS.map((shard) => count(keyspace.outbox(shard))));
  return counts.reduce((sum: number, one) => sum + Number(one), 0);
}
