import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readBalances } from '../../../../shared/books/balances.ts';
import { proveGrants } from '../../../../shared/books/reconciling/grant-proof.ts';
import { reconcile } from '../../../../shared/books/reconciling/reconcile.ts';
import { leaveVoid } from '../../../../tests/helpers/dead-void.ts';
import { passTime, recordOf } from '../../../../tests/helpers/pass-time.ts';
import { hear, lastChange, unhear } from '../../../../tests/helpers/unheard.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';
import { copyRecord } from '../../sync/ended-grants.ts';
import { makeRecords } from '../../tests/helpers/records.ts';

// Voids that Redis hears of later than Postgres: an api that dies after the commit leaves them to the sweeper. A restore from a
// backup brings such back, too.

const HOUR = 3_600_000;
const world = await joinWorld();
const { books, redis } = world;
const records = await makeRecords(world);

test('a void of which Redis hears when the grant has ended leaves a record that can be proved, whatever was copied before', async () => {
  const ids: string[] = [];
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
    assert.equal(await proof(id), [15_000_000, 1_000_000, 0]);
    assert.equal((await records.numbers(id)).slice(1), ['VOIDED 2 0 0', 'EXPIRED 2 1 0']);
    ids.push(id);
  }
  await provedByBooks(ids);
});

test('a grant that begins before Redis hears that it was voided is voided, ended or not, whatever credits follow', async () => {
  const ids: string[] = [];
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
    assert.equal(await proof(id), [add ? 18_000_000 : 15_000_000, 5_000_000, 0], add);
    assert.is((await records.numbers(id))[1], 'VOIDED 0 5 0');
    ids.push(id);
  }
  await provedByBooks(ids);
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
  assert.equal(await proof(id), [11_000_000, 0, 0]);
  assert.is((await records.numbers(id))[1], 'VOIDED 0 0 0');
});

async function leaveUnheardVoid(id: string, grantId: string): Promise<void> {
  await leaveVoid(world, id, grantId);
  await unhear(world, await lastChange(world, id));
}

/** What a record has of all its grants together: granted, expired, and by how much that is wrong. */
async function proof(id: string) {
  const record = await recordOf(world.sql, id);
  await copyRecord(world.sql, redis, record);
  const [found] = (await proveGrants(world.sql, await readBalances(redis, [record]))).values();
  return [found?.grantedMicros, found?.grantsExpiredMicros, found?.differenceMicros];
}

async function provedByBooks(ids: string[]): Promise<void> {
  await world.booked();
  const billings = await Promise.all(ids.map((id) => recordOf(world.sql, id)));
  const found = await reconcile({ sql: world.sql, redis, books }, billings, 60_000);
  for (const { status } of found) assert.is(status, 'EXACT');
}
