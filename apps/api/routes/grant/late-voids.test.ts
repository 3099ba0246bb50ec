import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { leaveVoid } from '../../../../tests/helpers/dead-void.ts';
import { passTime, recordOf } from '../../../../tests/helpers/pass-time.ts';
import { hear, lastChange, unhear } from '../../../../tests/helpers/unheard.ts';
import { connectRedisOf } from '../../../../tests/helpers/world-redis.ts';
import { joinWorld, type World } from '../../../../tests/helpers/world.ts';
import { copyRecord } from '../../sync/ended-grants.ts';
import { makeRecords, type Records } from '../../tests/helpers/records.ts';

// Voids that Redis hears of later than Postgres: an api that dies after the commit leaves them to the sweeper. A restore from a
// backup brings such back, too.

const test = suite('voids that Redis hears of late');
const HOUR = 3_600_000;
let world: World;
let redis: ShardedRedis;
let records: Records;
test.before(async () => {
  world = await joinWorld();
  redis = await connectRedisOf(world);
  records = await makeRecords(world);
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

test('a void of which Redis hears when the grant has ended leaves a record that can be proved, whatever was copied before', async () => {
  for (const isCopied of [false, true]) {
    const { key, id } = await records.record('10');
    const expiresAt = Date.now() + HOUR;
    const first = await records.granted(id, { credits: '2', priority: 10, expiresAt });
    await records.granted(id, { credits: '3', priority: 10, expiresAt });
    await records.spend(key, '4');
    await leaveUnheardVoid(id, first);
    await passTime(world, redis, id, 2 * HOUR);
    if (isCopied)
      await world.sql`update grants set used_micros = 1000000, held_micros = 2000000, told_epoch = 0, told_turn = 9 where id = ${first}`;
    await hear(world, redis, id);
    assert.equal(await proof(id), ['EXACT', '15', '1', '0']);
    assert.equal((await records.numbers(id)).slice(1), ['VOIDED 2 0 0', 'EXPIRED 2 1 0']);
  }
});

test('a grant that begins before Redis hears that it was voided is voided, ended or not, whatever credits follow', async () => {
  for (const [lasts, add] of [
    [HOUR, undefined],
    [9 * HOUR, undefined],
    [undefined, 'a grant'],
    [undefined, 'a refill'],
  ] as const) {
    const { id, meter } = await records.record('10');
    const beginsAt = Date.now() + HOUR;
    const body = lasts ? { priority: 10, expiresAt: beginsAt + lasts } : {};
    await leaveUnheardVoid(id, await records.granted(id, { credits: '5', beginsAt, ...body }));
    await passTime(world, redis, id, 3 * HOUR);
    assert.is((await records.billing(id)).totalCredits, '15', 'it has begun');
    await hear(world, redis, id);
    if (add === 'a grant') await records.granted(id, { credits: '3' });
    if (add === 'a refill') await records.refill(meter, '3');
    assert.equal(await proof(id), ['EXACT', add ? '18' : '15', '5', '0'], add);
    assert.is((await records.numbers(id))[1], 'VOIDED 0 5 0');
  }
});

test('a grant that was voided before it began never counts, and its record is proved after its end', async () => {
  const { id } = await records.record('10');
  const beginsAt = Date.now() + HOUR;
  const one = await records.granted(id, { credits: '5', beginsAt, expiresAt: beginsAt + HOUR });
  const first = await records.voided(id, one);
  assert.equal([first.grant.state, first.billing.totalCredits], ['VOIDED', '10']);
  assert.equal(await records.voided(id, one), first, 'voided again it answers the same');
  await records.granted(id, { credits: '1', expiresAt: Date.now() + 9 * HOUR });
  await passTime(world, redis, id, 3 * HOUR);
  assert.equal(await proof(id), ['EXACT', '11', '0', '0']);
  assert.is((await records.numbers(id))[1], 'VOIDED 0 0 0');
});

test.run();

async function leaveUnheardVoid(id: string, grantId: string): Promise<void> {
  await leaveVoid(world, id, grantId);
  await unhear(world, await lastChange(world, id));
}

/** What reconciling says of all grants together, of which all that ended is copied. */
async function proof(id: string): Promise<string[]> {
  await copyRecord(world.sql, redis, await recordOf(world.sql, id));
  await world.booked();
  const { status, grants } = await records.proof(id);
  return [status, grants.grantedCredits, grants.grantsExpiredCredits, grants.difference];
}
