import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace, meterShard } from '../../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import { must, type TestKey } from '../helpers/customers.ts';
import { dayWithRoom } from '../helpers/day-with-room.ts';
import { makeRebuildWorld, type RebuildWorld } from '../helpers/rebuild-world.ts';
import { refusingBooks } from '../helpers/refusing-books.ts';
import { eventually, once } from '../helpers/world.ts';

// What becomes of credits when their Redis is emptied or comes back older, with events still on their way. A consumer runs only
// while a test books; what waits until then, a test may take away and give back later, as a consumer that had it in hand.

type Entries = [outbox: string, fields: string[]][];

let own: RebuildWorld;

test.before(async () => void (own = await makeRebuildWorld('lost', { BUS: 'redis' })));
test.before.each(() => own.allOpen());

test('events on their way while Redis is lost, and lost again while it is filled, count once they arrive', async () => {
  const one = await own.customers.meteredKey('100');
  await own.spend(one, '1');
  await own.adjust(one, '10');
  await book();
  await own.redis.keep('first');
  await own.allOpen();
  await own.spend(one, '6');
  await own.adjust(one, '-0.5');
  const late = await take();
  await own.redis.comeBackAs('first');
  await own.untilBuilt();
  await own.redis.admin.flushall();
  await own.allOpen();
  await own.spend(one, '8');
  // Postgres has the adjustment, so applying it again needs no books.
  await has(one, '18.5 used 0 held');
  await giveBack(late);
  await book();
  await has(one, '24.5 used 0 held');
  await book(() => own.isExact(one));
});

test('events lost with the outbox are named with their amount, and never come back', async () => {
  const one = await own.customers.meteredKey('100');
  await own.spend(one, '1');
  await book();
  await own.spend(one, '2');
  await own.spend(one, '3');
  await own.redis.admin.flushall();
  await own.allOpen();
  assert.is((await own.spend(one, '1')).billing.usedCredits, '2');
  await book(() => own.isExact(one, ['5']));
});

/** How a hold of 30 is ended before each of two losses and after the last; and what is billed for it. */
type Scene = [acts: [string, string, string], used: string];
const ended: Scene[] = [
  [['9', '9', '9'], '9'],
  [['9', '7', '5'], '9'],
  [['9', '', 'release'], '9'],
  [['9', 'release', ''], '9'],
  [['release', '7', ''], '7'],
];
const losses: Record<string, Scene[]> = {
  'comes back older': [...ended, [['', '', ''], '0'], [['9', '', ''], '9'], [['release', 'release', ''], '0']],
  'is emptied': ended,
};

for (const [lose, scenes] of Object.entries(losses))
  test(`a hold that a Redis ended again each time that it ${lose} has ended once, whichever loss the books hear of first`, async () => {
    const played = await Promise.all(
      scenes.map(async ([acts, used]) => {
        const key = await own.customers.meteredKey('1000');
        return { acts, used, key, holdId: await own.customers.hold(key, '30') };
      }),
    );
    await book();
    await own.redis.keep(lose);
    await own.allOpen();
    const lost: Entries[] = [];
    for (const epoch of [0, 1, 2]) {
      await Promise.all(played.map(({ acts, holdId }) => end(holdId, acts[epoch]!)));
      if (epoch === 2) break;
      lost.push(await take());
      if (lose === 'is emptied') await own.redis.admin.flushall();
      else await own.redis.comeBackAs(lose);
      await own.allOpen();
    }
    await book();
    for (const entries of lost.toReversed()) {
      await giveBack(entries);
      await book();
    }
    for (const { acts, used, key } of played)
      await has(key, `${used} used ${acts.join('') === '' ? 30 : 0} held`, acts.join());
    // What was settled is an event, too.
    await book(async () => {
      for (const { key } of played) await own.isExact(key);
    });
    const { holdId } = played[0]!;
    assert.is((await ask('capture', { holdId, usage: '9' })).status, 200);
    assert.is((await ask('capture', { holdId, usage: '29' })).body.error.code, 40951);
  });

test('limits go on after a loss with what the books have, and with what is held', async () => {
  await dayWithRoom('UTC');
  const limits = [{ name: 'monthly', unit: 'credits', limit: '100', per: 'month' }];
  const meter = await own.customers.newMeter({ totalCredits: '1000', limits });
  const one = { ...(await own.customers.newKey({ externalMeterId: meter })), meter };
  const daily = { name: 'daily', unit: 'requests', limit: 50, per: 'day' };
  const unmetered = { ...(await own.customers.newKey({ limits: [daily] })), meter: '' };
  const left = async (key: TestKey, usage = '0') => (await own.spend(key, usage)).limits[0].remaining as unknown;
  assert.equal([await left(one, '30'), await left(unmetered)], ['70', 49]);
  const holdId = await own.customers.hold(one, '20');
  await book();
  await own.redis.admin.flushall();
  await own.allOpen();
  assert.equal([await left(one), await left(unmetered)], ['50', 48]);
  assert.is((await ask('capture', { holdId, usage: '5' })).status, 200);
  assert.is(await left(one), '65');
  await book();
  await own.redis.keep('limits');
  await own.allOpen();
  await own.spend(one, '10');
  await book();
  await own.redis.comeBackAs('limits');
  await own.allOpen();
  await eventually('its limit is raised', async () => (await left(one)) === '55');
});

test('grants come back with what remains of each, and voids after the last backup of the books are done again', async () => {
  const one = await own.customers.meteredKey('100');
  const { id } = await own.customers.billing(one.meter);
  const path = `/api/v1/customer-billing/${id}`;
  const grant = async (body: object) =>
    (await must(201, own.world.call('post', `${path}/grant`, body, { headers: once() }))).body.grant.id as string;
  const voidGrant = (of: string) => must(200, own.world.call('post', `${path}/grant/${of}/void`, { reason: 'r' }));
  const state = async () => {
    const { grants } = (await must(200, own.world.call('get', `${path}/grants`))).body;
    const { billing } = (await must(200, own.world.call('get', path))).body;
    return JSON.stringify([
      billing.totalCredits,
      billing.usedCredits,
      billing.availableCredits,
      billing.expiredCredits,
      grants.map((each: Record<string, string>) => [each.state, each.usedCredits, each.remainingCredits]),
    ]);
  };
  const first = await grant({ credits: '50', priority: 10, expiresAt: Date.now() + 3_600_000 });
  const second = await grant({ credits: '17', priority: 20 });
  await grant({ credits: '5', beginsAt: Date.now() + 3_600_000 });
  await own.spend(one, '12');
  await voidGrant(second);
  await book();
  await own.redis.keep('grants');
  await own.allOpen();
  await own.spend(one, '46');
  await book();
  await voidGrant(first);
  const [wanted, voids] = [await state(), await take()];
  for (const lose of [() => own.redis.comeBackAs('grants'), () => own.redis.admin.flushall()]) {
    await lose();
    await own.allOpen();
    await eventually('it is as it was', async () => (await state()) === wanted);
  }
  await giveBack(voids);
  await book();
  await eventually('it is as it was', async () => (await state()) === wanted);
  await book(() => own.isExact(one));
});

test('a record that can not be settled holds up no other, and is settled once it can be', async () => {
  const [poisoned, other] = [await own.customers.meteredKey('100'), await own.customers.meteredKey('100')];
  for (const one of [poisoned, other]) await own.spend(one, '1');
  await book();
  const name = keyspace.billing(meterShard(own.workspaceId, poisoned.meter), own.workspaceId, poisoned.meter);
  await own.redis.admin.hset(name, 'c', 'poisoned');
  await own.redis.keep('poisoned');
  await own.redis.admin.hdel(name, 'c');
  await own.allOpen();
  for (const one of [poisoned, other]) await own.spend(one, '2');
  await book();
  await own.redis.comeBackAs('poisoned');
  await has(other, '3 used 0 held');
  await eventually('it is tried again and again', async () => ((await attempts()) ?? 0) > 1);
  await own.redis.admin.hdel(name, 'c');
  await has(poisoned, '3 used 0 held');
  await eventually('nothing is noted any more', async () => (await attempts()) === undefined);
});

test('an emptied shard opens without a record that the books do not tell of, which gets 503 until its balance is there', async () => {
  const [held, other] = [await own.customers.meteredKey('100'), await own.customers.meteredKey('100')];
  for (const one of [held, other]) await own.spend(one, '2');
  await book();
  const { id } = await own.customers.billing(held.meter);
  const refusing = await refusingBooks(own.world.env.CLICKHOUSE_URL!);
  await own.world.api.stop();
  const PORT = new URL(own.world.api.url).port;
  const api = await own.world.start('api', { CLICKHOUSE_URL: refusing.url, PORT });

  // While they tell nothing at all, it stays closed.
  refusing.refuse('billing_id');
  await own.redis.admin.flushall();
  await eventually('the books were asked', async () => refusing.count() >= 4);
  assert.is((await own.customers.verify({ key: other.key })).status, 503);
  refusing.refuse(id);
  await own.allOpen();
  assert.is((await own.spend(other, '1')).billing.usedCredits, '3');
  assert.is((await own.customers.verify({ key: held.key })).body.error.code, 50305);
  refusing.refuse(undefined);
  await own.untilValid(held);
  assert.is((await own.spend(held, '1')).billing.usedCredits, '3');
  await api.stop();
  refusing.close();
});

/** A consumer carries all that waits into the books, and runs until that is proved. */
async function book(proof = async () => {}): Promise<void> {
  const consumer = await own.world.start('consumer');
  await own.world.booked();
  await proof();
  await consumer.stop();
}

async function take(): Promise<Entries> {
  const taken: Entries = [];
  for (const outbox of ALL_SHARDS.map(keyspace.outbox)) {
    for (const [id, fields] of await own.redis.admin.xrange(outbox, '-', '+')) {
      taken.push([outbox, fields]);
      await own.redis.admin.xdel(outbox, id);
    }
  }
  return taken;
}

async function giveBack(entries: Entries): Promise<void> {
  for (const [outbox, fields] of entries) await own.redis.admin.xadd(outbox, '*', ...fields);
}

async function has({ meter }: TestKey, wanted: string, what = ''): Promise<void> {
  let found = '';
  const isThere = async () => {
    const { usedCredits, heldCredits } = await own.customers.billing(meter);
    return (found = `${usedCredits} used ${heldCredits} held`) === wanted;
  };
  await eventually(wanted, isThere).catch(() => assert.is(found, wanted, what));
}

function ask(what: string, body: object) {
  return own.world.call('post', `${own.world.verify!.url}/api/v1/usage/${what}`, body);
}

/** Captures so many credits of a hold, or releases it, or does nothing. */
async function end(holdId: string, act: string): Promise<void> {
  if (act === '') return;
  await must(200, act === 'release' ? ask('release', { holdId }) : ask('capture', { holdId, usage: act }));
}

async function attempts(): Promise<number | undefined> {
  const [note] = await own.world.sql<{ attempts: number }[]>`select attempts from unsettled_records`;
  return note?.attempts;
}
