import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../../shared/runtime/metrics.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { callsOf, makeWorld, must, once } from '../../tests/helpers/calls.ts';
import { makeRecords, type Grant } from '../../tests/helpers/records.ts';
import { makeDuePeriods } from './schedule-job.ts';

const DAY = 86_400_000;
const daily = { credits: '1', every: 'day', anchorAt: Date.now() - DAY / 2 };
const world = await makeWorld();
const { redis } = world;
const records = await makeRecords(world);

test('nothing is granted, refilled or voided of a record while Redis has yet to hear of an earlier change of it', async () => {
  const isRefused = async (column: string, which: number) => {
    const one = await newRecord();
    const [status, method, path, body] = changesOf(one)[which]!;
    const change = () => world.call(method, path, body, { headers: once() });
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
  const [one, other] = [await newRecord(), await newRecord()];
  for (const { id } of [one, other]) await passTime(world, redis, id, DAY);
  await hideFromRedis(one, 'last_adjustment', 1);
  await makePeriods();
  assert.equal([await periodsOf(one), await periodsOf(other)], [3, 4]);
  await hideFromRedis(one, 'last_adjustment', -1);
  await makePeriods();
  assert.is(await periodsOf(one), 4);
});

type Made = Awaited<ReturnType<typeof newRecord>>;

/** A record with a grant and a schedule. */
async function newRecord() {
  const { id, meter } = await records.record('10');
  const grantId = await records.granted(id, { credits: '5' });
  const schedule = await callsOf(world).make(`${records.path(id)}/grant-schedule`, daily, once());
  return { id, meter, grantId, scheduleId: schedule.id as string };
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

/** Makes all periods that are due. */
async function makePeriods(): Promise<void> {
  const stores = { sql: world.sql, redis, metrics: makeMetrics('test'), log: makeLogger('test', 'silent') };
  await makeDuePeriods(stores, new AbortController().signal);
}

async function stateOf({ id }: Made): Promise<[billing: object, grants: Grant[]]> {
  return [await records.billing(id), await records.grants(id)];
}

async function periodsOf({ id }: Made): Promise<number> {
  return (await records.grants(id)).filter(({ scheduleId }) => scheduleId !== undefined).length;
}
