import * as assert from 'uvu/assert';
import { makeCustomers, must, newWorkspace, type TestKey } from './customers.ts';
import { eventually, makeWorld, once } from './world.ts';
import { makeOwnRedis, untilOpen } from './own-redis.ts';

export type RebuildWorld = Awaited<ReturnType<typeof makeRebuildWorld>>;

/** A test file's own world with a Redis of its own to lose, and ways to see what its balances and books hold afterwards. */
export async function makeRebuildWorld(name: string, settings: Record<string, string> = {}) {
  const redis = await makeOwnRedis(name);
  const world = await makeWorld(['verify'], { REDIS_URL: redis.url, ...settings });
  const workspaceId = await newWorkspace(world);
  const customers = makeCustomers(world, workspaceId);
  const pathOf = async ({ meter }: TestKey) => `/api/v1/customer-billing/${(await customers.billing(meter)).id}`;
  return {
    redis,
    world,
    workspaceId,
    customers,
    /** Waits until every shard is open, and api and verify know it. */
    allOpen: () => untilOpen(redis, world.api.url, world.verify!.url),
    spend: customers.spend,
    async adjust(key: TestKey, amount: string): Promise<void> {
      const path = `${await pathOf(key)}/adjustment`;
      await must(201, world.call('post', path, { amount, reason: 'a test' }, { headers: once() }));
    },
    /** Waits until a key is VALID again; until then it is undecided, and never refused. */
    untilValid({ key }: Pick<TestKey, 'key'>): Promise<unknown> {
      return eventually('verified again', async () => {
        const answer = await customers.verify({ key });
        if (answer.status === 503) return false;
        assert.is(answer.body.status, 'VALID', answer.text);
        return true;
      });
    },
    used: async ({ meter }: TestKey): Promise<string> => (await customers.billing(meter)).usedCredits,
    /** The books are exact, and no credits were lost. */
    async isExact(key: TestKey): Promise<void> {
      const path = `${await pathOf(key)}/reconciliation`;
      const found = await eventually('nothing is on its way', async () => {
        const { reconciliation } = (await must(200, world.call('get', path))).body;
        return reconciliation.status === 'ON_ITS_WAY' ? undefined : reconciliation;
      });
      // What untilValid verified may be lost: it cost nothing.
      const lost = found.losses.filter(({ credits }: { credits: string }) => credits !== '0');
      assert.equal([found.status, found.difference, found.gaps, lost], ['EXACT', '0', [], []], JSON.stringify(found));
      assert.is(found.lastBalance, found.usedCredits);
    },
  };
}
