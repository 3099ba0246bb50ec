import { rejects } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { distrustMeters } from '../../shared/stores/meters.ts';
import { HOUR_MS } from '../../shared/values/meter-kinds.ts';
import { makeMeterStage, START_MS } from './helpers/meter-stage.ts';
import { claimDestination, meterLags, pauseAfter } from './send-meters.ts';

const { sql, team, plan, newDestination, withWaiting, dyingAt } = await makeMeterStage();

test('events of one customer and meter are sent one after the other, as Stripe asks for, and each once', async () => {
  const one = await withWaiting('stripe', 6);
  await one.send();
  assert.equal([await one.states(), one.receiver.taken.size, one.receiver.repeated()], [{ SENT: 6 }, 6, 0]);
});

test('what blames the destination puts all off, and it catches up; what blames an event fails that event alone', async () => {
  const one = await withWaiting('lago', 5);
  await one.send(() => '429');
  const { attempts, failingSince, lastError } = await one.read();
  assert.equal([attempts, failingSince !== null, lastError], [1, true, '429: slower']);
  await one.send(() => 'no connection');
  assert.equal([await one.states(), await one.tried()], [{ WAITING: 5 }, 0]);
  const stripe = await withWaiting('stripe', 2);
  await sql`
    update meter_events set external_id = 'nobody' where id = (select min(id) from meter_events where destination_id = ${stripe.id})`;
  await stripe.send();
  assert.equal(await stripe.states(), { SENT: 1, FAILED: 1 });
  await one.send();
  assert.equal([await one.states(), (await one.read())['failingSince']], [{ SENT: 5 }, null]);
});

test('one event that a batch is refused for does not keep the others, and one that is known already counts as sent', async () => {
  const one = await withWaiting('lago', 5);
  await one.send(() => 'lost answer');
  assert.equal([await one.states(), one.receiver.taken.size], [{ WAITING: 5 }, 5]);
  await one.send();
  assert.equal([await one.states(), one.receiver.taken.size], [{ SENT: 5 }, 5]);
});

test('an event whose try had no answer is not sent again once its identity may be forgotten, nor one that is further back than is taken', async () => {
  const one = await withWaiting('stripe', 1);
  await one.send(() => 'no answer');
  await sql`update meter_events set tried_at = now() - interval '25 hours' where destination_id = ${one.id}`;
  await one.send();
  assert.equal([await one.states(), one.receiver.taken.size], [{ FAILED: 1 }, 0]);
  const late = await withWaiting('stripe', 1);
  await sql`update meter_events set hour = hour - interval '35 days' where destination_id = ${late.id}`;
  await late.send();
  const [{ error }] = await sql<[{ error: string }]>`select error from meter_events where destination_id = ${late.id}`;
  assert.equal([await late.states(), late.receiver.taken.size], [{ FAILED: 1 }, 0]);
  assert.match(error, 'further back than 35 days');
});

test('a process that died holds a destination up until its claim ends, and the next one sends under the same identities', async () => {
  const one = await withWaiting('stripe', 1);
  await rejects(
    one.send(() => 'well', dyingAt(2)),
    /it died/,
  );
  await sql`update meter_destinations set next_at = now() where id = ${one.id}`;
  assert.equal([await one.states(), await claimDestination(sql)], [{ WAITING: 1 }, undefined]);
  await sql`update meter_destinations set claimed_until = null where id = ${one.id}`;
  assert.is(await claimDestination(sql, [], [team.id]), undefined, 'its team has its share under way');
  await one.send();
  assert.equal([await one.states(), one.receiver.taken.size, one.receiver.repeated()], [{ SENT: 1 }, 1, 1]);
});

for (const [kind, state] of [
  ['stripe', 'FAILED'],
  ['lago', 'SENT'],
] as const)
  test(`after a restore ${kind} is sent nothing until somebody has looked; what it was sent since the backup is planned again, and it takes nothing twice`, async () => {
    const one = await withWaiting(kind, 2);
    await one.sendAll();
    // As in a Postgres of before.
    for (const table of ['meter_events', 'meter_sums', 'meter_rests'])
      await sql`delete from ${sql(table)} where destination_id = ${one.id}`;
    assert.ok((await distrustMeters(sql)).includes(one.id));
    await plan();
    assert.equal([await one.send(), await one.states()], [false, { WAITING: 2 }]);
    await sql`update meter_destinations set enabled = true where id = ${one.id}`;
    await one.sendAll();
    assert.equal([await one.states(), one.receiver.taken.size], [{ [state]: 2 }, 2]);
  });

test('a sender whose claim has ended notes what was sent, and leaves all else to the one that has it now', async () => {
  const one = await withWaiting('stripe', 2);
  let calls = 0;
  await one.send(async () => {
    if (calls++ === 0) return 'well';
    await sql`update meter_destinations set claimed_until = now() + interval '1 minute' where id = ${one.id}`;
    return '429';
  });
  const { attempts, claimedUntil } = await one.read();
  assert.equal([await one.states(), await one.tried()], [{ SENT: 1, WAITING: 1 }, 1]);
  assert.equal([attempts, claimedUntil !== null], [0, true]);
});

test('an event that its receiver fails for holds up no others, and the destination counts as failing since then', async () => {
  const one = await withWaiting('lago', 5);
  const spoilt = new Date(START_MS + 3 * HOUR_MS - 1_000).getTime() / 1_000;
  const answering = (body: string) => (body.includes(`"timestamp":${spoilt},`) ? '500' : 'well');
  for (let slices = 0; slices < 30; slices++) {
    await one.send(answering);
    await sql`update meter_destinations set failing_since = failing_since - interval '1 minute' where id = ${one.id}`;
  }
  const [{ minutes }] = await sql<[{ minutes: number }]>`
    select round(extract(epoch from now() - failing_since) / 60)::int as minutes from meter_destinations where id = ${one.id}`;
  assert.equal([await one.states(), minutes], [{ SENT: 4, WAITING: 1 }, 30]);
});

test('the lag is that of half the destinations of a kind: planning that stands still counts, and one that takes nothing tells its team', async () => {
  await sql`update meter_destinations set enabled = false`;
  const lag = async () => (await meterLags(sql)).find(({ kind }) => kind === 'http')!.seconds;
  const { workspaceId } = await withWaiting('http', 1);
  const other = await newDestination(workspaceId, 'http');
  await newDestination(workspaceId, 'http');
  assert.is(await lag(), 0);
  const [row] = await sql<{ billingId: string }[]>`
    select id as billing_id from billing_records where workspace_id = ${workspaceId}`;
  const stands = new Date(START_MS).toISOString();
  await sql`insert into meter_days ${sql({ destinationId: other.id, teamId: team.id, ...row, day: stands, plannedTo: stands })}`;
  assert.ok((await lag()) > 3 * 86_400);
  await sql`delete from meter_days where destination_id = ${other.id}`;
});

test('a process that stops ends what is under way, and leaves the rest of a slice as it was', async () => {
  const one = await withWaiting('stripe', 3);
  const stopping = new AbortController();
  await one.send(() => (stopping.abort(), 'well'), sql, stopping.signal);
  assert.equal([await one.states(), await one.tried()], [{ SENT: 1, WAITING: 2 }, 0]);
});

test('a disabled destination is sent nothing, and what is used meanwhile waits', async () => {
  const one = await withWaiting('openmeter', 1);
  await sql`update meter_destinations set enabled = false where id = ${one.id}`;
  assert.equal([await one.send(), await one.states()], [false, { WAITING: 1 }]);
});

test('a slice pauses longer after each failure, as long as Retry-After says, and a quarter of an hour at most', () => {
  const found = [1, 2, 5, 40].map((failures) => pauseAfter(failures, undefined, 0));
  assert.equal(found, [1_000, 2_000, 16_000, 900_000]);
  assert.equal([pauseAfter(1, '30', 0), pauseAfter(1, '99999', 0), pauseAfter(1, 'soon', 1)], [30_000, 900_000, 1_100]);
});
