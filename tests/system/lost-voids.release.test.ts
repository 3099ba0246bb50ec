import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must, type TestKey } from '../helpers/customers.ts';
import { leaveVoid } from '../helpers/dead-void.ts';
import { inTime } from '../helpers/in-time.ts';
import { makeLostEnds } from '../helpers/lost-ends.ts';
import { eventually } from '../helpers/world.ts';

// Voids that Redis and the books have lost and Postgres has, as after a backup was restored: the cut of the books is older than
// Postgres, and grants end before their void comes again.

const test = suite('voids of a Redis that was lost');
let own: Awaited<ReturnType<typeof makeLostEnds>>;

test.before(async () => {
  own = await makeLostEnds('lost-voids');
});
test.after(() => own?.stop());

const ENDS_AFTER_MS = 12_000;
const BEGINS_AFTER_MS = 2_500;
// Beyond what is restored.
const LASTS_MS = 3_600_000;
// A class of which nothing is known is asked for again for a minute, and so long its record is not proved.
const SOON_MS = 40_000;

/**
 * What is done to a grant of 5, on a record of 10, before the cut of the books and after it; and what the grant and its record
 * have once everything is restored: state, used, expired and remaining; and total, used, held and expired.
 */
type Scene = { before: string; after: string; grant: string; record: string };
const scenes: Scene[] = [
  { before: '', after: 'grant void', grant: 'VOIDED 0 5 0', record: '15 0 0 5' },
  { before: '', after: 'grant spend void', grant: 'VOIDED 0 5 0', record: '15 0 0 5' },
  { before: '', after: 'grant hold void', grant: 'VOIDED 0 5 0', record: '15 0 0 5' },
  { before: 'grant', after: 'spend void', grant: 'VOIDED 0 5 0', record: '15 0 0 5' },
  { before: 'grant', after: 'hold void', grant: 'VOIDED 0 5 0', record: '15 0 0 5' },
  { before: 'grant spend', after: 'void', grant: 'VOIDED 2 3 0', record: '15 2 0 3' },
  { before: 'grant', after: 'spend void refill', grant: 'VOIDED 0 5 0', record: '16 0 0 5' },
  { before: '', after: 'other grant spend void', grant: 'VOIDED 0 5 0', record: '18 0 0 8' },
  { before: 'last', after: 'void', grant: 'VOIDED 0 5 0', record: '15 0 0 5' },
  { before: '', after: 'later begun spend void', grant: 'VOIDED 0 5 0', record: '15 0 0 5' },
  { before: 'later', after: 'late', grant: 'VOIDED 0 5 0', record: '15 0 0 5' },
  { before: 'later', after: 'void other', grant: 'VOIDED 0 5 0', record: '18 0 0 8' },
  { before: 'lasting later', after: 'void other', grant: 'VOIDED 0 5 0', record: '18 0 0 5' },
  { before: '', after: 'later late', grant: 'VOIDED 0 0 0', record: '10 0 0 0' },
];

test('a void that came after the cut of a backup is proved again, whatever it took and whatever was copied of it', async () => {
  const played = await inTime(ENDS_AFTER_MS, async (endsAt) => {
    const played = await Promise.all(scenes.map((scene) => begin(scene, endsAt)));
    await Promise.all(played.map((one) => doAll(one, one.before)));
    await own.book(await own.takeLines());
    await Promise.all(played.map((one) => doAll(one, one.after)));
    return played;
  });
  await own.killApi();
  await own.redis.admin.flushall();
  await eventually('all have ended', async () => played.every(({ endsAt }) => Date.now() > endsAt));
  await own.startAgain();
  await own.allOpen();
  await untilProved(played);
});

test.run();

type Played = Scene & { key: TestKey; id: string; grantId: string; beginsAt: number; endsAt: number; lasts: boolean };

async function begin(scene: Scene, endsAt: number): Promise<Played> {
  const key = await own.customers.meteredKey('10');
  const { id } = await own.customers.billing(key.meter);
  return { ...scene, key, id, grantId: '', beginsAt: NaN, endsAt, lasts: false };
}

async function doAll(played: Played, acts: string): Promise<void> {
  for (const act of acts.split(' ')) await doOne(played, act);
}

async function doOne(played: Played, act: string): Promise<void> {
  const { key, id, grantId, endsAt } = played;
  switch (act) {
    case 'grant':
      played.grantId = await grant(played, '5');
      return;
    case 'lasting':
      played.lasts = true;
      return;
    case 'other':
      await grant(played, '3');
      return;
    case 'later':
      // Where a busy machine comes here late, at the end at the latest: all is done again then.
      played.beginsAt = Math.min(Date.now() + BEGINS_AFTER_MS, endsAt - 1);
      played.grantId = await grant(played, '5', played.beginsAt);
      return;
    case 'last':
      played.grantId = await grant(played, '5', endsAt - 1);
      return;
    case 'begun':
      await eventually('it begins', async () => (await amounts(played)).startsWith('15'));
      return;
    case 'spend':
      await own.spend(key, '2');
      return;
    case 'hold':
      await own.customers.hold(key, '4', { expiresIn: 600, onExpiry: 'release' });
      return;
    case 'refill':
      await must(
        200,
        own.world.call('post', '/api/v1/customer-billing/refill', {
          workspaceId: own.workspaceId,
          externalMeterId: key.meter,
          refill: '1',
        }),
      );
      return;
    case 'void':
      await must(200, own.world.call('post', `/api/v1/customer-billing/${id}/grant/${grantId}/void`));
      return;
    case 'late':
      // Redis begins it before it hears of the void.
      await leaveVoid(own.world, id, grantId, played.beginsAt - 1);
      await eventually('it began', async () => (await amounts(played)).startsWith('15'));
      await eventually('it is voided', async () => (await amounts(played)) === '15 0 0 5');
      await eventually('Postgres counts it', async () => {
        const counted = await own.world.sql`select from grants where id = ${grantId} and before_micros is not null`;
        return counted.count === 1;
      });
      return;
    default:
      assert.is(act, '');
  }
}

let keys = 0;

async function grant({ id, endsAt, lasts }: Played, credits: string, beginsAt?: number): Promise<string> {
  const headers = { 'Idempotency-Key': `grant-${keys++}` };
  const body = {
    credits,
    priority: 10,
    expiresAt: endsAt + (lasts ? LASTS_MS : 0),
    ...(beginsAt !== undefined && { beginsAt }),
  };
  const path = `/api/v1/customer-billing/${id}/grant`;
  return (await must(201, own.world.call('post', path, body, { headers }))).body.grant.id;
}

async function amounts({ id }: Played): Promise<string> {
  const { billing } = (await must(200, own.world.call('get', `/api/v1/customer-billing/${id}`))).body;
  const { totalCredits, usedCredits, heldCredits, expiredCredits } = billing;
  return [totalCredits, usedCredits, heldCredits, expiredCredits].join(' ');
}

/** Waits until all scenes have what they are to have, and then until their grants prove it, one by one: each asks the books for all of it. */
async function untilProved(played: Played[]): Promise<void> {
  const wanted = played.map(({ before, after, grant, record }) => `${before} | ${after}: ${grant}, ${record}`);
  let found: string[] = [];
  const areAsWanted = async () => {
    found = await Promise.all(played.map(restored));
    return found.join() === wanted.join();
  };
  await eventually('all are as wanted', areAsWanted).catch(() => assert.equal(found, wanted));
  for (const { id, before, after } of played) {
    await eventually(
      `it is proved: ${before} | ${after}`,
      async () => {
        await own.book(await own.takeLines());
        const { body } = await own.world.call('get', `/api/v1/customer-billing/${id}/reconciliation`);
        return body.reconciliation?.grants?.difference === '0';
      },
      SOON_MS,
    );
  }
}

async function restored(played: Played): Promise<string> {
  const { before, after, id, grantId } = played;
  const { grant } = (await must(200, own.world.call('get', `/api/v1/customer-billing/${id}/grant/${grantId}`))).body;
  const { state, usedCredits, expiredCredits, remainingCredits } = grant;
  const numbers = [state, usedCredits, expiredCredits, remainingCredits].join(' ');
  return `${before} | ${after}: ${numbers}, ${await amounts(played)}`;
}
