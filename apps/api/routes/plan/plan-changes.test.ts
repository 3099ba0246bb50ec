import { randomUUID } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../../shared/runtime/metrics.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { makeDuePeriods } from '../../resources/grants/schedule-job.ts';
import { changeDuePlans } from '../../resources/plans/plan-job.ts';
import { makeBackground } from '../../tests/helpers/background.ts';
import { callsOf, column, columns, joinWorld, refused } from '../../tests/helpers/calls.ts';
import { makeRecords } from '../../tests/helpers/records.ts';

// What becomes of records when their plans change by the clock, or with all records of a plan. The api does beside us what is due. That
// after any changes a record stands as its plan says, the simulator proves.

const DAY = 86_400_000;
// Not whole days: an end that has passed is the name of a class, and no later one may come to be the same.
const PASSED = DAY + 1000;
const world = await joinWorld();
const { sql, redis } = world;
const { ask, make, change, read, remove } = callsOf(world);
const records = await makeRecords(world);
const background = makeBackground(world);
const stores = { sql, redis, metrics: makeMetrics('test'), log: makeLogger('test', 'error') };
const PLAN = `/api/v1/workspace/${records.workspaceId}/plan`;
const daily = (credits: string, more: object = {}) => ({ credits, every: 'day', name: 'daily', ...more });
const planOf = async (credits: string, more: object = {}): Promise<string> =>
  (await make(PLAN, { name: credits, schedules: [daily(credits)], ...more })).id;
const [free, pro] = await Promise.all([planOf('10'), planOf('100')]);

test('a plan at the period end: the running period stays as it is, then the new plan begins with its settings; its own plan takes that back', async () => {
  const { id, key } = await customer(free, { spendCap: '77' });
  await records.spend(key, '4');
  const [running] = await records.grants(id);
  const waiting = await change(records.path(id), { planId: pro, when: 'atPeriodEnd' });
  assert.equal([waiting.planId, waiting.nextPlanId, waiting.nextPlanAt], [free, pro, running!.expiresAt]);
  assert.equal([waiting.availableCredits, waiting.spendCap], ['6', '77']);
  assert.is((await change(records.path(id), { planId: free })).nextPlanAt, undefined);
  await change(records.path(id), { planId: pro, when: 'atPeriodEnd' });
  // Asked for again after the end, before it is done, it is not put off.
  await sql`update billing_records set next_plan_at = next_plan_at + 1 where id = ${id}`;
  const again = await change(records.path(id), { planId: pro, when: 'atPeriodEnd' });
  assert.is(again.nextPlanAt, waiting.nextPlanAt + 1);
  await pass(id);
  const after = await records.billing(id);
  const { planId, nextPlanId, nextPlanAt, spendCap, availableCredits, usedCredits } = after;
  assert.equal([planId, nextPlanId, nextPlanAt, spendCap], [pro, undefined, undefined, undefined]);
  assert.equal([availableCredits, usedCredits], ['100', '4']);
  const grants = (await records.grants(id)).filter(({ state }) => state === 'ACTIVE' || state === 'PENDING');
  const daily = [1, 2, 3].map((days) => ['100', running!.expiresAt - PASSED + days * DAY]);
  assert.equal(columns(grants, 'credits', 'expiresAt'), daily);
  const line = (await read(`/api/v1/audit-log?resourceId=${id}`)).at(-1);
  assert.equal([line.operation, line.before.planId, line.after.planId], ['plan', free, pro]);
  await change(records.path(id), { planId: null, when: 'atPeriodEnd' });
  await pass(id);
  assert.equal([(await records.billing(id)).planId, await standing(id)], [undefined, []]);
  await proven(id);
});

test('a change applied to all records gives each once what is new, also where some could not be done, or two do it; what was set by hand stays', async () => {
  const plan = await planOf('10', { spendCap: '50', grants: [{ credits: '5' }] });
  const [one, other, byHand] = [await customer(plan), await customer(plan), await customer(plan, { spendCap: '70' })];
  await records.granted(one.id, { credits: '3' });
  await records.spend(one.key, '8');
  const hide = (by: 1 | -1) => sql`update billing_records set version = version + ${by} where id = ${other.id}`;
  await change(records.path(byHand.id), { planId: pro, when: 'atPeriodEnd' });
  // Redis has yet to hear of a change of it.
  await hide(1);
  const changed = await change(`${PLAN}/${plan}`, { spendCap: '60', schedules: [daily('20')], apply: 'all' });
  assert.equal([changed.version, changed.applying], [2, true]);
  const late = await customer(plan);
  await makeDue();
  assert.equal([await versionOf(one.id), await versionOf(other.id), await versionOf(byHand.id)], [2, 1, 2]);
  assert.is((await read(`${PLAN}/${plan}`)).applying, true);
  await hide(-1);
  await Promise.all([makeDue(), makeDue()]);
  await makeDue();
  assert.is((await read(`${PLAN}/${plan}`)).applying, false);
  for (const [{ id }, spendCap, before] of [
    [one, '60', '10'],
    [other, '60', '10'],
    [byHand, '70', '10'],
    [late, '60', '20'],
  ] as const) {
    const billing = await records.billing(id);
    assert.equal([billing.planVersion, billing.spendCap], [2, spendCap]);
    const once = id === one.id ? ['ACTIVE 3', 'ACTIVE 5'] : ['ACTIVE 5'];
    assert.equal(await standing(id), [`ACTIVE ${before}`, 'PENDING 20', 'PENDING 20', ...once].toSorted());
  }
  assert.is((await records.billing(byHand.id)).nextPlanId, pro);
  assert.is((await records.billing(one.id)).availableCredits, '10');
  await pass(one.id);
  assert.equal(await standing(one.id), ['ACTIVE 20', 'ACTIVE 3', 'ACTIVE 5', 'PENDING 20', 'PENDING 20']);
  await Promise.all([one, other, byHand].map(({ id }) => proven(id)));
});

test('a version grants no period a second time: what follows begins when what runs has ended, and what was deleted stays so', async () => {
  const [utc, berlin] = [daily('10'), daily('20', { timezone: 'Europe/Berlin' })];
  const [morning, evening] = [9, 1].map((hours) => daily('10', { anchorAt: Date.now() - hours * 3_600_000 }));
  for (const [said, first, versions, pending] of [
    ['the same', [utc], [[daily('20')], [daily('30')]], ['30', '30']],
    ['another zone, and the same again', [utc], [[berlin], [{ ...berlin, credits: '30' }]], ['30', '30']],
    ['another unit', [utc], [[{ ...utc, every: 'week' }]], ['10', '10']],
    ['none, then some again', [utc], [null, [daily('30')]], ['30', '30']],
    [
      'the first of two goes, and the other is named',
      [morning, evening],
      [[evening], [{ ...evening, credits: '30' }]],
      ['30', '30'],
    ],
  ] as const) {
    const plan = await planOf('1', { schedules: first });
    const { id } = await customer(plan);
    const running = (await records.grants(id)).filter(({ state }) => state === 'ACTIVE');
    const end = Math.max(...running.map(({ expiresAt }) => expiresAt));
    for (const schedules of versions) {
      await change(`${PLAN}/${plan}`, { schedules, apply: 'all' });
      await makeDue();
    }
    const grants = await records.grants(id);
    assert.equal(grants.filter(({ state }) => state === 'ACTIVE').length, first.length, said);
    const coming = grants.filter(({ state }) => state === 'PENDING');
    assert.equal(columns(coming, 'credits').flat(), pending, said);
    assert.is(Math.min(...coming.map(({ beginsAt }) => beginsAt)), end, said);
  }
});

test('a version grants no period a second time that had begun before the clock was set back', async () => {
  const plan = await planOf('10');
  const { id } = await customer(plan);
  await passTime(world, redis, id, -600_000);
  await change(`${PLAN}/${plan}`, { schedules: [daily('30', { every: 'week' })], apply: 'all' });
  await makeDue();
  const grants = (await records.grants(id)).filter(({ state }) => state !== 'VOIDED');
  const [begun, next] = grants.toSorted((a, b) => a.beginsAt - b.beginsAt);
  assert.equal([begun!.credits, next!.credits, next!.beginsAt], ['10', '30', begun!.expiresAt]);
});

test('a schedule of a plan that somebody deleted is in no later version, and its running period is still waited for', async () => {
  const plan = await planOf('10', { grants: [{ credits: '5' }] });
  const { id } = await customer(plan);
  const [{ id: scheduleId }] = await read(`${records.path(id)}/grant-schedules`);
  const [, running] = await records.grants(id);
  await remove(`${records.path(id)}/grant-schedule/${scheduleId}`);
  await change(`${PLAN}/${plan}`, { name: 'renamed', limits: [], grants: [{ credits: '7' }], apply: 'all' });
  await makeDue();
  assert.equal([await versionOf(id), await standing(id)], [2, ['ACTIVE 10', 'ACTIVE 5']]);
  const waiting = await change(records.path(id), { planId: free, when: 'atPeriodEnd' });
  assert.equal([waiting.planId, waiting.nextPlanAt], [plan, running!.expiresAt]);
});

test('its own plan takes back what waits, and gives no later version unless that is asked for', async () => {
  const plan = await planOf('10');
  const { id } = await customer(plan);
  await change(`${PLAN}/${plan}`, { spendCap: '60', grants: [{ credits: '7' }] });
  await change(records.path(id), { planId: pro, when: 'atPeriodEnd' });
  for (let i = 0; i < 2; i++) {
    const kept = await change(records.path(id), { planId: plan });
    assert.equal([kept.planVersion, kept.nextPlanAt, kept.spendCap], [1, undefined, undefined]);
  }
  const given = await change(records.path(id), { planId: plan, planVersion: 'latest' });
  assert.equal([given.planVersion, given.spendCap], [2, '60']);
  const once = 'what it grants once is for who comes to it';
  assert.equal(await standing(id), ['ACTIVE 10', 'PENDING 10', 'PENDING 10'], once);
  await refused(40001, ask('patch', records.path(id), { planVersion: 'latest' }));
});

test('what a record can have no more of is left out of its new plan, and the audit log says so', async () => {
  const [small, rich] = [await planOf('1'), await planOf('100', { grants: [{ credits: '50' }] })];
  const { id } = await customer(small, { totalCredits: '8999999990' });
  await refused(40001, ask('patch', records.path(id), { planId: rich, when: 'atPeriodEnd', spendCap: '70' }));
  await change(records.path(id), { planId: rich, when: 'atPeriodEnd' });
  await pass(id);
  assert.equal([(await records.billing(id)).planId, await standing(id)], [rich, ['ACTIVE 8999999990']]);
  const told = async (resourceId: string) =>
    (await read(`/api/v1/audit-log?resourceId=${resourceId}`)).filter(({ after }: Line) => after?.notGranted).length;
  const [schedule] = await read(`${records.path(id)}/grant-schedules`);
  assert.equal([await told(id), await told(schedule.id)], [1, 3]);
  const voided = (await records.grants(id)).find(({ state }) => state === 'VOIDED')!;
  const [line] = await read(`/api/v1/audit-log?resourceId=${voided.id}`);
  assert.equal([line.operation, line.before.voidedAt, line.after.reason], ['plan', undefined, 'the plan was changed']);
});

test('what is granted in the step that voids grants to come is in no class of theirs', async () => {
  const anchored = { anchorAt: Date.now() - DAY / 2 };
  const first = await planOf('1', { schedules: [daily('10', anchored)] });
  const second = await planOf('2', { schedules: [daily('30', anchored)] });
  const { id } = await customer(first);
  await change(records.path(id), { planId: second });
  const toCome = await sql`select class from grants where billing_id = ${id} and before_micros is null`;
  assert.equal([toCome.length, new Set(column(toCome, 'class')).size], [4, 4]);
  await change(records.path(id), { planId: first });
  await pass(id);
  assert.equal(await standing(id), ['ACTIVE 10', 'PENDING 10', 'PENDING 10']);
  assert.is((await records.billing(id)).totalCredits, '60');
  await proven(id);
});

type Line = { after?: { notGranted?: object } };

async function customer(planId: string, more: object = {}): Promise<{ id: string; key: string }> {
  const fields = { workspaceId: records.workspaceId, externalMeterId: randomUUID() };
  const { id } = await make('/api/v1/customer-billing', { ...fields, planId, ...more });
  const { key } = await make('/api/v1/api-key', { ...fields, name: 'k' });
  return { id, key };
}

/** Lets a day pass for a record, and does what is due by then. */
async function pass(id: string): Promise<void> {
  await passTime(world, redis, id, PASSED);
  await makeDue();
  await makeDuePeriods(stores, new AbortController().signal);
  await background.sweep();
}

async function makeDue(): Promise<void> {
  await changeDuePlans(stores, new AbortController().signal);
  await background.sweep();
}

async function proven(id: string): Promise<void> {
  await world.booked();
  assert.is((await records.proof(id)).status, 'EXACT');
}

const standing = async (id: string) =>
  (await records.grants(id))
    .filter(({ state }) => state === 'ACTIVE' || state === 'PENDING')
    .map(({ state, credits }) => `${state} ${credits}`)
    .toSorted();

const versionOf = async (id: string): Promise<number> => (await records.billing(id)).planVersion;
