import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers, type TestKey } from './customers.ts';
import { eventually, makeWorld, once, type World } from './world.ts';
import { makeOwnRedis, untilOpen } from './own-redis.ts';

export type RebuildWorld = Awaited<ReturnType<typeof makeRebuildWorld>>;

/** A test file's own world with a Redis of its own to lose, and ways to see what its balances and books hold afterwards. */
export async function makeRebuildWorld(name: string, settings: Record<string, string> = {}) {
  const redis = await makeOwnRedis(name);
  const world = await makeWorld(['verify'], { REDIS_URL: redis.url, ...settings });
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name })).body;
  const customers = makeCustomers(world, workspace.id);
  return {
    redis,
    world,
    workspaceId: workspace.id as string,
    customers,
    ...spending(world, customers),
    ...looking(world, customers),
    /** Waits until every shard is open, and api and verify know it. */
    allOpen: () => untilOpen(redis, world.api.url, world.verify!.url),
  };
}

/** Ways to move credits. */
function spending(world: World, customers: Customers) {
  return {
    async spend({ key }: TestKey, usage: string) {
      const answer = await must(200, customers.verify({ key, billing: { usage } }, { headers: once() }));
      assert.is(answer.body.status, 'VALID', answer.text);
      return answer.body;
    },
    async adjust({ meter }: TestKey, amount: string): Promise<void> {
      const { id } = await customers.billing(meter);
      const path = `/api/v1/customer-billing/${id}/adjustment`;
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
  };
}

/** Ways to see balances and books. */
function looking(world: World, customers: Customers) {
  async function reconciliation({ meter }: TestKey) {
    const { id } = await customers.billing(meter);
    return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/reconciliation`))).body.reconciliation;
  }

  return {
    async used({ meter }: TestKey): Promise<string> {
      return (await customers.billing(meter)).usedCredits;
    },
    /** The books are exact, and name these losses of credits. */
    async isExact(key: TestKey, lost: string[] = []): Promise<void> {
      const found = await eventually('nothing is on its way', async () => {
        const one = await reconciliation(key);
        return one?.status === 'ON_ITS_WAY' ? undefined : one;
      });
      const losses = found.losses.map(({ credits }: { credits: string }) => credits);
      // What untilValid verified may be lost: it cost nothing.
      const named = losses.filter((credits: string) => credits !== '0');
      assert.equal(
        [found.status, found.difference, found.gaps, named],
        ['EXACT', '0', [], lost],
        JSON.stringify(found),
      );
      assert.is(found.lastBalance, found.usedCredits);
    },
  };
}
