import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../../shared/runtime/metrics.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';
import { makeDuePeriods } from '../../resources/grants/schedule-job.ts';
import { makeRecords } from '../../tests/helpers/records.ts';

// The contract's lines on schedules of grants. When periods begin is shared/values/calendar's.

const DAY = 86_400_000;
const at = (text: string) => Temporal.Instant.from(text).epochMilliseconds;
const world = await joinWorld();
const { redis } = world;
const records = await makeRecords(world);

test('a schedule grants for the running period in full, from now, and for the next two before they begin', async () => {
  const { id } = await records.record();
  const now = Date.now();
  const asked = { credits: '5', every: 'day', anchorAt: now - 10.5 * DAY, name: 'daily', priority: 20 };
  const made = await schedule(id, asked);
  assert.match(made.id, /^sched_/);
  const { id: _, createdAt: __, ...rest } = made;
  assert.equal(rest, { ...asked, billingId: id, timezone: 'UTC' });
  const grants = await records.grants(id);
  assert.equal(
    grants.map((one) => [one.credits, one.state, one.expiresAt - now, one.priority, one.name, one.scheduleId]),
    [0.5, 1.5, 2.5].map((days, i) => ['5', i === 0 ? 'ACTIVE' : 'PENDING', days * DAY, 20, 'daily', made.id]),
  );
  const [running, ...next] = grants.map(({ beginsAt }) => beginsAt - now);
  assert.equal(next, [0.5 * DAY, 1.5 * DAY]);
  // Redis's clock may be apart from ours.
  assert.ok(running! > -5_000 && running! < DAY / 4, `${running} ms`);
  assert.equal(await records.amounts(id), ['5', '0', '5', '0', '0']);
  assert.equal(await schedulesOf(id), [made]);
});

test('periods are those of the time zone, and no period begins at or after endsAt; one that has begun keeps its end', async () => {
  const { id } = await records.record();
  // Berlin skips 02:00 to 03:00 on 26 March 2028.
  const anchorAt = at('2028-03-25T02:30:00+01:00');
  await schedule(id, { credits: '1', every: 'day', timezone: 'Europe/Berlin', anchorAt });
  assert.equal(
    (await records.grants(id)).flatMap(({ beginsAt, expiresAt }) => [beginsAt, expiresAt]),
    ['2028-03-25T01:30Z', '2028-03-26T01:00Z', '2028-03-26T01:00Z', '2028-03-27T00:30Z'].map(at),
  );
  const ending = await records.record();
  const now = Date.now();
  await schedule(ending.id, { credits: '1', every: 'day', anchorAt: now - DAY / 2, endsAt: now + 1.5 * DAY });
  assert.equal(
    (await records.grants(ending.id)).map((one) => one.expiresAt - now),
    [DAY / 2, 1.5 * DAY],
  );
});

test('a period turns though no api has made the next one; with rollover its grant lives one period longer with at most maxCredits, drawn by its new end', async () => {
  const { key, id } = await records.record();
  await schedule(id, { credits: '10', every: 'day', anchorAt: Date.now() - 4.5 * DAY, rollover: { maxCredits: '4' } });
  await records.spend(key, '3');
  await passTime(world, redis, id, DAY);
  assert.equal(await records.amounts(id), ['20', '3', '14', '0', '3']);
  await makePeriods();
  assert.equal(await records.numbers(id), ['ACTIVE 3 3 4', 'ACTIVE 0 0 10', 'PENDING 0 0 10', 'PENDING 0 0 10']);
  const [first, second] = await records.grants(id);
  assert.is(first!.expiresAt, second!.expiresAt - DAY);
  await records.spend(key, '5');
  assert.equal((await records.numbers(id)).slice(0, 2), ['USED_UP 7 3 0', 'ACTIVE 1 0 9']);
  await makePeriods();
  assert.is((await records.grants(id)).length, 4, 'a period is made once');
});

test('deleting a schedule voids the periods to come; the running one keeps its end', async () => {
  const { id } = await records.record();
  const made = await schedule(id, { credits: '5', every: 'month', rollover: { maxCredits: '1' } });
  const [running] = await records.grants(id);
  const path = `${pathOf(id)}/${made.id}`;
  assert.equal((await must(200, world.call('delete', path))).body.grantSchedule, made);
  assert.equal(await records.numbers(id), ['ACTIVE 0 0 5', 'VOIDED 0 0 0', 'VOIDED 0 0 0']);
  assert.equal((await records.grants(id))[0], running);
  assert.equal(await records.amounts(id), ['5', '0', '5', '0', '0']);
  assert.equal(await schedulesOf(id), []);
  assert.is((await world.call('delete', path)).body.error.code, 40431);
});

test('a period that would pass 9000000000 is not granted, and the audit log tells it once', async () => {
  const { id } = await records.record();
  const made = await schedule(id, { credits: '3000000000', every: 'day', anchorAt: Date.now() - 4.5 * DAY });
  await passTime(world, redis, id, DAY);
  await makePeriods();
  const { auditLog } = await records.get(`/api/v1/audit-log?resourceId=${made.id}`);
  const [line, ...more] = auditLog.filter((one: { operation: string }) => one.operation === 'grant schedule');
  assert.equal(more, []);
  assert.equal(line.after.notGranted, { period: 7, beginsAt: line.after.anchorAt + 7 * DAY });
  assert.is((await records.grants(id)).length, 3);
  assert.is((await records.billing(id)).totalCredits, '6000000000');
});

test('wrong schedules are refused, and an eleventh one of a record', async () => {
  const { id } = await records.record();
  for (const more of [
    { credits: '0' },
    { timezone: 'Mars/Olympus' },
    { timezone: '+05:45' },
    { endsAt: Date.now() - 1 },
  ])
    assert.is(await records.refused(pathOf(id), { credits: '1', every: 'day', ...more }), 40001, JSON.stringify(more));
  const daily = { credits: '1', every: 'day', anchorAt: at('2100-01-01T00:00Z') };
  for (let i = 0; i < 10; i++) await schedule(id, daily);
  assert.is(await records.refused(pathOf(id), daily), 40943);
});

/** Makes what is due, beside the api, which does the same: one of them makes a period. */
async function makePeriods(): Promise<void> {
  const stores = { sql: world.sql, redis, metrics: makeMetrics('test'), log: makeLogger('test', 'error') };
  await makeDuePeriods(stores, new AbortController().signal);
}

function pathOf(id: string): string {
  return `${records.path(id)}/grant-schedule`;
}

async function schedule(id: string, body: object) {
  return (await must(201, world.call('post', pathOf(id), body))).body.grantSchedule;
}

async function schedulesOf(id: string) {
  return (await records.get(`${pathOf(id)}s`)).grantSchedules;
}
