import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../../shared/runtime/metrics.ts';
import { connectPostgres } from '../../../../shared/stores/postgres.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { makeDuePeriods } from '../../resources/grants/schedule-job.ts';
import { makeRecords, type Grant } from '../../tests/helpers/records.ts';
import { callsOf, column, columns, joinWorld, must, once, refused } from '../../tests/helpers/calls.ts';

// The contract's lines on schedules of grants. When periods begin is shared/values/calendar's.

const DAY = 86_400_000;
const daily = { credits: '1', every: 'day', anchorAt: Date.now() - DAY / 2 };
const at = (text: string) => Temporal.Instant.from(text).epochMilliseconds;
const world = await joinWorld();
const { redis } = world;
const { ask, read, make, remove } = callsOf(world);
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
  const expected = ['ACTIVE', 'PENDING', 'PENDING'].map((state, i) => [state, now + (0.5 + i) * DAY]);
  assert.equal(columns(grants, 'state', 'expiresAt'), expected);
  for (const one of grants)
    assert.equal(columns([one], 'credits', 'priority', 'name', 'scheduleId'), [['5', 20, 'daily', made.id]]);
  const [running, ...next] = grants.map(({ beginsAt }) => beginsAt - now);
  assert.equal(next, [0.5 * DAY, 1.5 * DAY]);
  // Redis's clock may be apart from ours.
  assert.ok(running! > -5_000 && running! < DAY / 4, `${running} ms`);
  assert.equal(await records.amounts(id), ['5', '0', '5', '0', '0']);
  assert.equal(await read(`${pathOf(id)}s`), [made]);
});

test('periods are those of the time zone, and no period begins at or after endsAt; one that has begun keeps its end', async () => {
  const { id } = await records.record();
  // Berlin skips 02:00 to 03:00 on 26 March 2090.
  const anchorAt = at('2090-03-25T02:30:00+01:00');
  await schedule(id, { credits: '1', every: 'day', timezone: 'Europe/Berlin', anchorAt });
  assert.equal(columns(await records.grants(id), 'beginsAt', 'expiresAt'), [
    [at('2090-03-25T01:30Z'), at('2090-03-26T01:00Z')],
    [at('2090-03-26T01:00Z'), at('2090-03-27T00:30Z')],
  ]);
  const ending = await records.record();
  const now = Date.now();
  await schedule(ending.id, { credits: '1', every: 'day', anchorAt: now - DAY / 2, endsAt: now + 1.5 * DAY });
  assert.equal(column(await records.grants(ending.id), 'expiresAt'), [now + DAY / 2, now + 1.5 * DAY]);
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
  assert.equal(await remove(path), made);
  assert.equal(await records.numbers(id), ['ACTIVE 0 0 5', 'VOIDED 0 0 0', 'VOIDED 0 0 0']);
  assert.equal((await records.grants(id))[0], running);
  assert.equal(await records.amounts(id), ['5', '0', '5', '0', '0']);
  assert.equal(await read(`${pathOf(id)}s`), []);
  await refused(40431, ask('delete', path));
});

test('a period that would pass 9000000000 is not granted, and the audit log tells it once', async () => {
  const { id } = await records.record();
  const made = await schedule(id, { credits: '3000000000', every: 'day', anchorAt: Date.now() - 4.5 * DAY });
  await passTime(world, redis, id, DAY);
  await makePeriods();
  const [, line, ...more] = await read(`/api/v1/audit-log?resourceId=${made.id}`);
  assert.equal([line.operation, more], ['grant schedule', []]);
  assert.equal(line.after.notGranted, { period: 7, beginsAt: line.after.anchorAt + 7 * DAY });
  assert.is((await records.grants(id)).length, 3);
  assert.is((await records.billing(id)).totalCredits, '6000000000');
});

test('wrong schedules are refused, and an eleventh one of a record', async () => {
  const { id } = await records.record();
  const wrong = [{ credits: '0' }, { timezone: 'Mars/Olympus' }, { timezone: '+05:45' }, { endsAt: Date.now() - 1 }];
  for (const more of wrong) await records.refused(40001, pathOf(id), { credits: '1', every: 'day', ...more });
  const later = { ...daily, anchorAt: at('2100-01-01T00:00Z') };
  for (let i = 0; i < 10; i++) await schedule(id, later);
  await records.refused(40943, pathOf(id), later);
});

test('nothing is granted, refilled or voided of a record while Redis has yet to hear of an earlier change of it', async () => {
  const isRefused = async (column: string, which: number) => {
    const one = await recordWithSchedule();
    const [status, method, path, body] = changesOf(one)[which]!;
    // Its whole address: a call by a path alone is repeated until it is decided.
    const change = () => world.call(method, world.api.url + path, body, { headers: once() });
    const before = await stateOf(one);
    await hideFromRedis(one, column, 1);
    const answer = await change();
    assert.equal([answer.status, answer.body.error?.code, answer.headers.get('retry-after')], [503, 50301, '1']);
    assert.match(answer.body.error.message, 'nothing was stored');
    assert.equal(await stateOf(one), before);
    await hideFromRedis(one, column, -1);
    await must(status, change());
  };
  // Each waits a while for Redis to hear.
  const columns = ['version', 'last_adjustment'];
  await Promise.all(columns.flatMap((column) => [0, 1, 2, 3, 4].map((which) => isRefused(column, which))));
});

test('no period of a record is made while Redis has yet to hear of an earlier change of it, and those of others are', async () => {
  const [one, other] = [await recordWithSchedule(), await recordWithSchedule()];
  // Before its period is due: the api makes what is.
  await hideFromRedis(one, 'last_adjustment', 1);
  for (const { id } of [one, other]) await passTime(world, redis, id, DAY);
  await makePeriods();
  assert.equal([await periodsOf(one), await periodsOf(other)], [3, 4]);
  await hideFromRedis(one, 'last_adjustment', -1);
  await makePeriods();
  assert.is(await periodsOf(one), 4);
});

test("a period that Postgres takes for due is made once it is by Redis's clock, which begins it", async () => {
  const { id } = await records.record();
  const MINUTES_30 = 1_800_000;
  await schedule(id, { credits: '1', every: 'day', anchorAt: Date.now() - DAY + MINUTES_30 });
  await world.sql`create schema ahead`;
  await world.sql`
    create function ahead.now() returns timestamptz language sql as 'select pg_catalog.now() + interval ''1 hour'''`;
  const url = new URL(world.env.DATABASE_URL!);
  url.searchParams.set('search_path', 'ahead, public, pg_catalog');
  const sql = connectPostgres(url.href);
  await makePeriods({ sql });
  assert.equal([await records.amounts(id), (await records.grants(id)).length], [['1', '0', '1', '0', '0'], 3]);
  await passTime(world, redis, id, MINUTES_30);
  await makePeriods({ sql });
  assert.is((await records.grants(id)).length, 4);
  await sql.end();
});

type Made = Awaited<ReturnType<typeof recordWithSchedule>>;

async function recordWithSchedule() {
  const { id, meter } = await records.record('10');
  const grantId = await records.granted(id, { credits: '5' });
  return { id, meter, grantId, scheduleId: (await schedule(id, daily)).id as string };
}

/** What may be asked for a record, with the status of its success. */
function changesOf({ id, meter, grantId, scheduleId }: Made) {
  const [path, { workspaceId }] = [records.path(id), records];
  return [
    [200, 'post', '/api/v1/customer-billing/refill', { workspaceId, externalMeterId: meter, refill: '3' }],
    [201, 'post', `${path}/grant`, { credits: '5' }],
    [201, 'post', `${path}/grant-schedule`, daily],
    [200, 'post', `${path}/grant/${grantId}/void`, { reason: 'r' }],
    [200, 'delete', `${path}/grant-schedule/${scheduleId}`],
  ] as const;
}

/** Counts one more change of a record in Postgres, or one less. */
function hideFromRedis({ id }: Made, column: string, by: 1 | -1) {
  return world.sql`update billing_records set ${world.sql(column)} = ${world.sql(column)} + ${by} where id = ${id}`;
}

/** Makes what is due, beside the api, which does the same: one of them makes a period. */
async function makePeriods({ sql } = { sql: world.sql }): Promise<void> {
  const stores = { sql, redis, metrics: makeMetrics('test'), log: makeLogger('test', 'error') };
  await makeDuePeriods(stores, new AbortController().signal);
}

const pathOf = (id: string): string => `${records.path(id)}/grant-schedule`;
const schedule = (id: string, body: object) => make(pathOf(id), body);

async function stateOf({ id }: Made): Promise<[billing: object, grants: Grant[]]> {
  return [await records.billing(id), await records.grants(id)];
}

async function periodsOf({ id }: Made): Promise<number> {
  return (await records.grants(id)).filter(({ scheduleId }) => scheduleId !== undefined).length;
}
