import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readBalances } from '../../../../shared/books/balances.ts';
import { proveGrants } from '../../../../shared/books/reconciling/grant-proof.ts';
import { passTime, recordOf, repeatEnded } from '../../../../tests/helpers/pass-time.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { readBooked } from '../../../../shared/books/sums/booked.ts';
import { amountsOf, makeRecords, type Grant } from '../../tests/helpers/records.ts';
import { callsOf, column, columns, joinWorld, refused } from '../../tests/helpers/calls.ts';

// The contract's section on grants, by what the api answers. What is drawn, and when, is the model's (tests/accounts).

const HOUR = 3_600_000;
const world = await joinWorld();
const { redis } = world;
const { ask, read } = callsOf(world);
const records = await makeRecords(world);

test('a grant begins at once, and has the priority 50 and no end unless they are given; a wrong one is refused', async () => {
  const { id } = await records.record();
  const given = { credits: '5', name: 'trial', metadata: { order: 7 } };
  const { grant } = await records.grant(id, given);
  const { createdAt: _, beginsAt, ...rest } = grant;
  const untouched = { usedCredits: '0', expiredCredits: '0', remainingCredits: '5', state: 'ACTIVE', priority: 50 };
  assert.equal(rest, { id: rest.id, billingId: id, ...given, ...untouched });
  assert.equal((await records.get(`${records.path(id)}/grant/${grant.id}`)).grant, grant);
  const now = Date.now();
  const late = (await records.grant(id, { credits: '1', beginsAt: now - 30_000 })).grant;
  assert.ok(late.beginsAt >= beginsAt, 'up to 60 s in the past means now');
  for (const wrong of [
    { credits: '1', beginsAt: now - 70_000 },
    { credits: '1', expiresAt: now - 1_000 },
    { credits: '1', beginsAt: now - 50_000, expiresAt: now - 40_000 },
    { credits: '1', beginsAt: now + HOUR, expiresAt: now + HOUR },
    { credits: '0' },
    { credits: '9000000000.000001' },
  ])
    await records.refused(40001, `${records.path(id)}/grant`, wrong);
  const other = await records.record();
  const elsewhere = `${records.path(other.id)}/grant/${grant.id}`;
  for (const asked of [ask('get', elsewhere), ask('post', `${elsewhere}/void`, { reason: 'r' })])
    await refused(40430, asked, 'it is a grant of its own record alone');
});

test('what is left of a grant when it ends has expired, and so has what is given back of it, also once the account has forgotten it', async () => {
  const { key, id } = await records.record('1');
  await records.granted(id, { credits: '5', expiresAt: Date.now() + HOUR, priority: 10 });
  const other = await records.granted(id, { credits: '3', priority: 20 });
  await records.spend(key, '6');
  await passTime(world, redis, id, 2 * HOUR);
  await records.voided(id, other);
  await records.adjust(id, '-2.5');
  const ended = ['EXPIRED 3.5 1.5 0', 'VOIDED 0 3 0'];
  assert.equal((await records.numbers(id)).slice(1), ended);
  await passTime(world, redis, id, 48 * HOUR);
  // Whatever is declared next, the account drops what ended more than a day ago.
  await records.granted(id, { credits: '1', priority: 30 });
  await world.booked();
  assert.equal((await records.numbers(id)).slice(1, 3), ended);
  assert.equal(await records.amounts(id), ['10', '3.5', '2', '0', '4.5']);
  const [, first] = await records.grants(id);
  await records.refused(40942, `${records.path(id)}/grant/${first!.id}/void`, { reason: 'r' });
});

test('a grant begins at its time, is PENDING before, and counts in total and in the ledger from then on', async () => {
  const { id, meter } = await records.record('1');
  const beginsAt = Date.now() + HOUR;
  const { billing } = await records.grant(id, { credits: '5', beginsAt, expiresAt: beginsAt + 5 * HOUR });
  await records.granted(id, { credits: '2', beginsAt });
  assert.equal(amountsOf(billing), ['1', '0', '1', '0', '0']);
  const creditsOf = async (state: string) =>
    (await records.grants(id, `state=${state}`)).map(({ credits }) => credits).join();
  assert.equal([await creditsOf('PENDING'), await creditsOf('ACTIVE')], ['5,2', '1']);
  await passTime(world, redis, id, 2 * HOUR);
  assert.equal([await creditsOf('PENDING'), await creditsOf('ACTIVE')], ['', '1,5,2']);
  assert.equal(await records.amounts(id), ['8', '0', '8', '0', '0']);
  await records.refill(meter, '3');
  assert.equal(await records.amounts(id), ['11', '0', '11', '0', '0']);
  assert.equal(await ledger(id), ['2 3', '3 6']);
});

test('what is left of a voided grant is gone at once; voided again it answers the same; the audit log has it once', async () => {
  const { key, id } = await records.record('10');
  const one = await records.granted(id, { credits: '5', priority: 10 });
  await records.spend(key, '2');
  const first = await records.voided(id, one, 'ordered twice');
  const fields = ['state', 'usedCredits', 'expiredCredits', 'remainingCredits', 'reason'];
  assert.equal(columns([first.grant], ...fields), [['VOIDED', '2', '3', '0', 'ordered twice']]);
  assert.equal(amountsOf(first.billing), ['15', '2', '10', '0', '3']);
  assert.equal(await records.amounts(id), ['15', '2', '10', '0', '3']);
  assert.equal(await records.voided(id, one), first);
  assert.is((await records.spend(key, '10.1')).reason, 'CREDITS_USED_UP');
  assert.is((await records.spend(key, '10')).status, 'VALID');
  const [made, voided, ...more] = await read(`/api/v1/audit-log?resourceId=${one}`);
  assert.equal([made.operation, made.after.voidedAt], ['POST /api/v1/customer-billing/{bid}/grant', undefined]);
  const told = [voided.operation, voided.before.credits, voided.after.voidedAt !== undefined, more];
  assert.equal(told, ['POST /api/v1/customer-billing/{bid}/grant/{gid}/void', '5', true, []]);
});

test('first credits and refills are grants of priority 50 without an end, listed in pages with the others and voided like them', async () => {
  const { key, id, meter } = await records.record('10');
  await records.refill(meter, '2.5');
  await records.granted(id, { credits: '1' });
  await records.spend(key, '11');
  const pages = await readPages<Grant>(2, (query) => ask('get', `${records.path(id)}/grants?${query}`));
  assert.equal(columns(pages.flat(), 'credits', 'state', 'usedCredits', 'priority', 'expiresAt'), [
    ['10', 'USED_UP', '10', 50, undefined],
    ['2.5', 'ACTIVE', '1', 50, undefined],
    ['1', 'ACTIVE', '0', 50, undefined],
  ]);
  assert.equal(column(pages, 'length'), [2, 1]);
  const [first, refilled] = pages.flat();
  await records.voided(id, refilled!.id);
  assert.equal(await records.amounts(id), ['13.5', '11', '1', '0', '1.5']);
  await records.voided(id, first!.id);
  assert.equal(await records.numbers(id), ['VOIDED 10 0 0', 'VOIDED 1 1.5 0', 'ACTIVE 0 0 1']);
  await records.refill(meter, '2.5');
  assert.equal(await records.amounts(id), ['16', '11', '3.5', '0', '1.5']);
  assert.equal(await ledger(id), ['2.5 12.5', '1 13.5', '2.5 16']);
});

test('a record has at most 16 classes that have not ended, 70 with paid ones, and 64 grants to come; grants of a class that it has, and refills, go on', async () => {
  const { id, meter } = await records.record('1');
  const path = `${records.path(id)}/grant`;
  for (let priority = 0; priority < 15; priority++) await records.granted(id, { credits: '1', priority });
  await records.granted(id, { credits: '1', priority: 80, metadata: { paymentId: 'pay_1' } });
  await records.refused(40940, path, { credits: '1', priority: 90 });
  await records.granted(id, { credits: '1', priority: 3 });
  await records.refill(meter, '1');

  const toCome = { credits: '1', beginsAt: Date.now() + HOUR };
  const one = await records.granted(id, toCome);
  // No id of ours has a u.
  await world.sql`
    insert into grants select (jsonb_populate_record(g, jsonb_build_object('id', left(g.id, -3) || 'u' || lpad(i::text, 2, '0')))).*
    from grants g, generate_series(1, 62) i where g.id = ${one}`;
  await records.granted(id, toCome);
  await records.refused(40941, path, toCome);
  await records.granted(id, { credits: '1' });
  assert.equal(await records.amounts(id), ['20', '0', '20', '0', '0']);

  // As if it had 69 more that were paid for.
  const paid = await records.record();
  await records.granted(paid.id, { credits: '1', priority: 1 });
  await world.sql`
    insert into grant_classes
    select (jsonb_populate_record(c, jsonb_build_object('ref', c.ref || i, 'number', 1000 + i, 'ends_at', 8000000000000 + i))).*
    from grant_classes c, generate_series(1, 69) i where c.billing_id = ${paid.id}`;
  await records.granted(paid.id, { credits: '1', priority: 1 });
  await records.refused(40940, `${records.path(paid.id)}/grant`, { credits: '1', priority: 2 });
});

test('once 200 grants of a record ended or were voided within a day none is made or voided, and all else goes on', async () => {
  const { key, id, meter } = await records.record('1');
  const kept = await records.granted(id, { credits: '1', priority: 90 });
  await records.voided(id, await records.granted(id, { credits: '1', priority: 10 }));
  await repeatEnded(world, redis, id, 199);
  const endings = { grant: {}, [`grant/${kept}/void`]: { reason: 'r' }, 'grant-schedule': { every: 'day' } };
  for (const [path, body] of Object.entries(endings)) {
    const asked = 'reason' in body ? body : { credits: '1', ...body };
    await records.refused(40944, `${records.path(id)}/${path}`, asked);
  }
  await records.refill(meter, '1');
  assert.is((await records.spend(key, '3')).status, 'VALID');
});

test('all grants ever are at most 9000000000 credits, those to come and voided ones included', async () => {
  const { id, meter } = await records.record('1');
  await records.granted(id, { credits: '8999999990', priority: 10 });
  await records.voided(id, await records.granted(id, { credits: '4', priority: 20 }));
  await records.granted(id, { credits: '4', beginsAt: Date.now() + HOUR });
  const path = `${records.path(id)}/grant`;
  await records.refused(40006, path, { credits: '1.000001' });
  const refill = { workspaceId: records.workspaceId, externalMeterId: meter, refill: '1.000001' };
  await records.refused(40006, '/api/v1/customer-billing/refill', refill);
  await records.granted(id, { credits: '1' });
  await records.refused(40006, path, { credits: '0.000001' });
});

test('reconcile proves the five amounts of a record by its grants, and finds what is not theirs', async () => {
  const { key, id } = await records.record('10');
  await records.granted(id, { credits: '5', expiresAt: Date.now() + HOUR, priority: 10 });
  const other = await records.granted(id, { credits: '4', priority: 20 });
  await records.granted(id, { credits: '3', priority: 70 });
  await records.spend(key, '6');
  await passTime(world, redis, id, 2 * HOUR);
  await records.voided(id, other);
  await records.spend(key, '2');
  const record = await recordOf(world.sql, id);
  await world.booked();
  const told = { totalCredits: '22', grantedCredits: '22', expiredCredits: '3', grantsExpiredCredits: '3' };
  const proved = await records.proof(id);
  assert.equal([proved.status, proved.grants], ['EXACT', { ...told, difference: '0' }]);
  const [balance] = await readBalances(redis, [record]);
  const booked = (await readBooked(world, [{ ...record, counted: balance! }])).get(id)!;
  booked.classes.get(2)!.expiredMicros += 1_000_000;
  const [wrong] = (await proveGrants(world.sql, [{ balance: balance!, booked }])).values();
  assert.equal([wrong!.grantsExpiredMicros, wrong!.differenceMicros], [4_000_000, 1_000_000]);
});

async function ledger(id: string): Promise<string[]> {
  return columns(await read(`${records.path(id)}/ledger`), 'amount', 'totalCredits').map((row) => row.join(' '));
}
