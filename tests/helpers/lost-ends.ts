import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { makeMarkChangedDays } from '../../apps/consumer/changed-days.ts';
import { makeFillOwners } from '../../apps/consumer/fill-owners.ts';
import { insertEvents } from '../../apps/consumer/insert-events.ts';
import { noteUnsettled } from '../../shared/books/settling/unsettled-records.ts';
import { carryLine } from '../../shared/events/carried-event.ts';
import { EVENT_FIELD } from '../../shared/events/event.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import { makeBehindWorld } from './behind-world.ts';
import type { TestKey } from './customers.ts';
import { untilOpen } from './own-redis.ts';
import { eventually, request, type Answer } from './world.ts';

/**
 * What is done to a hold of 30 before each loss of its Redis and after the last one: a capture of some credits, a release, an
 * extension, a charge at its end, perhaps with a late capture; and what is billed for it in the end.
 */
export type Scene = { acts: [string, string, string]; used: string };
export type Played = Scene & { key: TestKey; id: string; holdId: string };

/**
 * A test file's own world whose Redis loses how holds ended. No consumer runs: the test takes lines out of the outbox, and says
 * which of them the books get, and when.
 */
export async function makeLostEnds(name: string) {
  const own = await makeBehindWorld(name);
  const books = connectClickHouse(own.world.env.CLICKHOUSE_URL!);
  let api = await own.startApi();
  own.world.api.url = api.url;

  const allOpen = () => untilOpen(own.redis, api.url, own.world.verify!.url);

  const hold = (key: TestKey) => own.customers.hold(key, '30', { expiresIn: 600, onExpiry: 'charge' });

  /** Captures, releases or extends a hold, as soon as its shard is open. */
  function ask(what: string, body: object): Promise<Answer> {
    const { url } = own.world.verify!;
    return eventually(`the ${what} is answered`, async () => {
      const answer = await request(`${url}/api/v1/usage/${what}`, 'post', { token: own.world.team.token, body });
      return answer.status === 503 ? undefined : answer;
    });
  }

  async function amounts({ meter }: TestKey): Promise<string> {
    const { usedCredits, heldCredits } = await own.customers.billing(meter);
    return `${usedCredits} used ${heldCredits} held`;
  }

  async function act({ key, holdId }: Played, what: string): Promise<void> {
    const [charge, late] = what.split(' ');
    if (charge === 'charge') {
      assert.is((await ask('extend', { holdId, expiresIn: 1 })).status, 200);
      await eventually('it is charged', async () => (await amounts(key)) === '30 used 0 held');
      if (late) assert.is((await ask('capture', { holdId, usage: late })).body.capture?.late, true);
    } else if (what === 'extend') assert.is((await ask('extend', { holdId, expiresIn: 3_600 })).status, 200);
    else if (what === 'release') assert.is((await ask('release', { holdId })).status, 200);
    else if (what !== '') assert.is((await ask('capture', { holdId, usage: what })).status, 200);
  }

  /** Takes all lines out of the outboxes. */
  async function takeLines(): Promise<string[]> {
    const lines: string[] = [];
    for (const shard of ALL_SHARDS) {
      const outbox = keyspace.outbox(shard);
      for (const [id, fields] of await own.redis.admin.xrange(outbox, '-', '+')) {
        lines.push(...fields[fields.indexOf(EVENT_FIELD) + 1]!.split('\n'));
        await own.redis.admin.xdel(outbox, id);
      }
    }
    return lines;
  }

  /** The books get lines. */
  async function book(lines: string[]): Promise<void> {
    if (lines.length === 0) return;
    const events = await makeFillOwners(own.world.sql, makeLogger('test', 'silent'), systemClock)(lines.map(carryLine));
    await insertEvents(books, events, systemClock);
    await makeMarkChangedDays(own.world.sql, systemClock)(events, Date.now());
  }

  const note = (played: Played[]) =>
    noteUnsettled(
      own.world.sql,
      played.map(({ id }) => id),
    );

  async function notesOf(played: Played[]) {
    const ids = new Set(played.map(({ id }) => id));
    return (await own.unsettled()).filter(({ billingId }) => ids.has(billingId));
  }

  /** Notes the records of the scenes, and waits until they are settled. */
  async function settle(played: Played[]): Promise<void> {
    await note(played);
    await eventually('all are settled', async () => (await notesOf(played)).length === 0);
  }

  return {
    ...own,
    takeLines,
    book,
    note,
    notesOf,
    settle,
    play(scenes: Scene[]): Promise<Played[]> {
      return Promise.all(
        scenes.map(async (scene) => {
          const key = await own.customers.meteredKey('1000');
          const { id } = await own.customers.billing(key.meter);
          return { ...scene, key, id, holdId: await hold(key) };
        }),
      );
    },
    /** Does what the scenes do between two losses. */
    async actAll(played: Played[], epoch: number): Promise<void> {
      await Promise.all(played.map((one) => act(one, one.acts[epoch]!)));
    },
    async keep(as: string): Promise<void> {
      await own.redis.keep(as);
      await allOpen();
    },
    async comeBackAs(kept: string): Promise<void> {
      await own.redis.comeBackAs(kept);
      await allOpen();
    },
    async emptyRedis(): Promise<void> {
      await own.redis.admin.flushall();
      await allOpen();
    },
    async killApi(): Promise<void> {
      await api.stop('SIGKILL');
    },
    async startAgain(): Promise<void> {
      api = await own.startApi();
      own.world.api.url = api.url;
    },
    /** Each hold has ended once, however often it is settled, and the books prove it. */
    async proved(played: Played[]): Promise<void> {
      await book(await takeLines());
      await settle(played);
      const found = await Promise.all(played.map(async ({ acts, key }) => `${acts.join()}: ${await amounts(key)}`));
      assert.equal(
        found,
        played.map(({ acts, used }) => `${acts.join()}: ${used} used ${isOpen(acts) ? 30 : 0} held`),
      );
      await book(await takeLines());
      await settle(played);
      assert.equal(await takeLines(), [], 'settling again says nothing more');
      // One after the other: each asks the books for all of its record.
      for (const { key, acts } of played) {
        const { status, difference, heldDifference, grants } = await own.reconciliation(key);
        const found = [status, difference, heldDifference, grants?.difference ?? '0'];
        assert.equal(found, ['EXACT', '0', '0', '0'], acts.join());
      }
    },
    /** A capture that counts is answered again; another one is refused. */
    async answeredAgain({ holdId, used }: Played): Promise<void> {
      assert.is((await ask('capture', { holdId, usage: used })).status, 200);
      assert.is((await ask('capture', { holdId, usage: '29' })).body.error?.code, 40951);
    },
    async stop(): Promise<void> {
      await books.close();
      await own.stop();
    },
  };
}

function isOpen(acts: string[]): boolean {
  return acts.every((what) => what === '' || what === 'extend');
}
