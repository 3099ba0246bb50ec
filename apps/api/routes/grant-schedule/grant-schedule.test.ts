import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { inTime } from '../../../../tests/helpers/in-time.ts';
import { metric } from '../../../../tests/helpers/metric.ts';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

// The contract's lines on schedules of grants.

const test = suite('grant schedules');
let world: World;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  world = await makeWorld(['verify']);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'scheduled' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(() => world?.stop());

const DAY = 86_400_000;
const at = (text: string) => Temporal.Instant.from(text).epochMilliseconds;

test('a schedule grants for the running period in full, from now, and for the next two before they begin', async () => {
  const { id, meter } = await record();
  const before = Date.now();
  const anchorAt = before - 10.5 * DAY;
  const made = await schedule(id, { credits: '5', every: 'day', anchorAt, name: 'daily', priority: 20 });
  assert.match(made.id, /^sched_/);
  const { id: _, createdAt: __, ...rest } = made;
  const settings = {
    credits: '5',
    name: 'daily',
    every: 'day',
    timezone: 'UTC',
    anchorAt: Math.floor(anchorAt),
    priority: 20,
  };
  assert.equal(rest, { billingId: id, ...settings });
  const grants = await grantsOf(id);
  assert.equal(
    grants.map((one) => [
      one.credits,
      one.state,
      one.expiresAt - made.anchorAt,
      one.priority,
      one.name,
      one.scheduleId,
    ]),
    [11, 12, 13].map((day, i) => ['5', i === 0 ? 'ACTIVE' : 'PENDING', day * DAY, 20, 'daily', made.id]),
  );
  // Redis's clock may be apart from ours.
  const { beginsAt } = grants[0]!;
  assert.ok(beginsAt > before - 1_000 && beginsAt < Date.now() + 1_000, `${beginsAt - before} ms`);
  assert.equal(
    grants.slice(1).map((one) => one.beginsAt - made.anchorAt),
    [11 * DAY, 12 * DAY],
  );
  assert.equal(await amountsOf(meter), ['5', '0', '5', '0', '0']);
  assert.equal(await schedulesOf(id), [made]);
});

test('with rollover the same grant lives one period longer with at most maxCredits, and is drawn by its new end', async () => {
  const { key, id, meter } = await inTime(2_500, async (turn) => {
    const made = await record();
    await schedule(made.id, { credits: '10', every: 'day', anchorAt: turn - 5 * DAY, rollover: { maxCredits: '4' } });
    await spend(made.key, '3');
    return made;
  });
  await eventually('it rolled over', async () => (await amountsOf(meter))[0] === '20');
  assert.equal(await amountsOf(meter), ['20', '3', '14', '0', '3']);
  await eventually('the next one is made', async () => (await grantsOf(id)).length === 4);
  assert.equal(await numbersOf(id), ['ACTIVE 3 3 4', 'ACTIVE 0 0 10', 'PENDING 0 0 10', 'PENDING 0 0 10']);
  const [first, second] = await grantsOf(id);
  assert.is(first!.expiresAt, second!.expiresAt - DAY);
  await spend(key, '5');
  assert.equal((await numbersOf(id)).slice(0, 2), ['USED_UP 7 3 0', 'ACTIVE 1 0 9']);
});

test('months of 28 to 31 days, leap years, and the turn of a year', async () => {
  assert.equal(await boundaries({ every: 'month', anchorAt: at('2029-01-31T00:00Z') }), [
    '2029-01-31T00:00:00Z',
    '2029-02-28T00:00:00Z',
    '2029-03-31T00:00:00Z',
  ]);
  assert.equal(await boundaries({ every: 'month', anchorAt: at('2028-01-31T08:00Z') }), [
    '2028-01-31T08:00:00Z',
    '2028-02-29T08:00:00Z',
    '2028-03-31T08:00:00Z',
  ]);
  assert.equal(await boundaries({ every: 'month', anchorAt: at('2028-03-31T00:00Z') }), [
    '2028-03-31T00:00:00Z',
    '2028-04-30T00:00:00Z',
    '2028-05-31T00:00:00Z',
  ]);
  assert.equal(await boundaries({ every: 'year', anchorAt: at('2028-02-29T00:00Z') }), [
    '2028-02-29T00:00:00Z',
    '2029-02-28T00:00:00Z',
    '2030-02-28T00:00:00Z',
  ]);
  assert.equal(await boundaries({ every: 'week', anchorAt: at('2028-12-28T00:00Z') }), [
    '2028-12-28T00:00:00Z',
    '2029-01-04T00:00:00Z',
    '2029-01-11T00:00:00Z',
  ]);
});

test('a time that does not exist is the first instant after it, and one that is doubled its first', async () => {
  const timezone = 'Europe/Berlin';
  // Berlin skips 02:00 to 03:00 on 26 March 2028, and has it twice on 29 October.
  assert.equal(await boundaries({ every: 'day', timezone, anchorAt: at('2028-03-25T02:30:00+01:00') }), [
    '2028-03-25T01:30:00Z',
    '2028-03-26T01:00:00Z',
    '2028-03-27T00:30:00Z',
  ]);
  assert.equal(await boundaries({ every: 'day', timezone, anchorAt: at('2028-10-28T02:30:00+02:00') }), [
    '2028-10-28T00:30:00Z',
    '2028-10-29T00:30:00Z',
    '2028-10-30T01:30:00Z',
  ]);
});

test('zones of +05:45 and −03:30 have their own midnights, at the turn of a year too', async () => {
  assert.equal(
    await boundaries({ every: 'month', timezone: 'Asia/Kathmandu', anchorAt: at('2028-12-01T00:00:00+05:45') }),
    ['2028-11-30T18:15:00Z', '2028-12-31T18:15:00Z', '2029-01-31T18:15:00Z'],
  );
  assert.equal(
    await boundaries({ every: 'month', timezone: 'America/St_Johns', anchorAt: at('2029-01-01T00:00:00-03:30') }),
    ['2029-01-01T03:30:00Z', '2029-02-01T03:30:00Z', '2029-03-01T03:30:00Z'],
  );
});

test('no period begins at or after endsAt; one that has begun keeps its end', async () => {
  const { id } = await record();
  const anchorAt = Date.now() - DAY / 2;
  await schedule(id, { credits: '1', every: 'day', anchorAt, endsAt: Date.now() + DAY });
  const grants = await grantsOf(id);
  assert.equal(
    grants.map((one) => one.expiresAt),
    [Math.floor(anchorAt) + DAY, Math.floor(anchorAt) + 2 * DAY],
  );
});

test('deleting a schedule voids the periods to come; the running one keeps its end', async () => {
  const { id, meter } = await record();
  const made = await schedule(id, { credits: '5', every: 'month', rollover: { maxCredits: '1' } });
  const [running] = await grantsOf(id);
  const path = `/api/v1/customer-billing/${id}/grant-schedule/${made.id}`;
  assert.equal((await must(200, world.call('delete', path))).body.grantSchedule, made);
  assert.equal(await numbersOf(id), ['ACTIVE 0 0 5', 'VOIDED 0 0 0', 'VOIDED 0 0 0']);
  assert.equal((await grantsOf(id))[0], running);
  assert.equal(await amountsOf(meter), ['5', '0', '5', '0', '0']);
  assert.equal(await schedulesOf(id), []);
  assert.is((await world.call('delete', path)).body.error.code, 40431);
});

test('a record has at most 10 schedules', async () => {
  const { id } = await record();
  for (let i = 0; i < 10; i++) await schedule(id, { credits: '1', every: 'day', anchorAt: at('2100-01-01T00:00Z') });
  const body = { credits: '1', every: 'day', anchorAt: at('2100-01-01T00:00Z') };
  const refused = await world.call('post', `/api/v1/customer-billing/${id}/grant-schedule`, body);
  assert.equal([refused.status, refused.body.error.code], [409, 40943]);
});

test('a period that would pass 9000000000 is not granted, and the audit log and a metric tell it', async () => {
  const { id, meter, made } = await inTime(2_500, async (turn) => {
    const one = await record();
    const made = await schedule(one.id, { credits: '3000000000', every: 'day', anchorAt: turn - 5 * DAY });
    return { ...one, made };
  });
  const line = await eventually('a line tells it', async () => {
    const { auditLog } = (await must(200, world.call('get', `/api/v1/audit-log?resourceId=${made.id}`))).body;
    return auditLog.find((one: { operation: string }) => one.operation === 'grant schedule');
  });
  assert.equal(line.after.notGranted, { period: 7, beginsAt: made.anchorAt + 7 * DAY });
  const counted = () => metric(world.api.url, 'keytally_periods_not_granted_total');
  await eventually('it is counted', async () => (await counted()) >= 1);
  assert.equal((await grantsOf(id)).length, 3);
  await eventually('the second has begun', async () => (await amountsOf(meter))[0] === '6000000000');
});

test('wrong schedules are refused', async () => {
  const { id } = await record();
  for (const body of [
    { credits: '0', every: 'day' },
    { credits: '1', every: 'hour' },
    { credits: '1' },
    { credits: '1', every: 'day', timezone: 'Mars/Olympus' },
    { credits: '1', every: 'day', timezone: '+05:45' },
    { credits: '1', every: 'day', anchorAt: -1 },
    { credits: '1', every: 'day', endsAt: Date.now() - 1 },
    { credits: '1', every: 'day', rollover: {} },
    { credits: '1', every: 'day', rollover: { maxCredits: '-1' } },
    { credits: '1', every: 'day', priority: 101 },
  ]) {
    const answer = await world.call('post', `/api/v1/customer-billing/${id}/grant-schedule`, body);
    assert.equal([answer.status, answer.body.error.code], [400, 40001], JSON.stringify(body));
  }
});

// The last one: it replaces the api.
test('a period turns at its instant while the api is down, and the next two are made once it is back', async () => {
  const { key, id } = await inTime(3_000, async (turn) => {
    const made = await record();
    await schedule(made.id, { credits: '5', every: 'day', anchorAt: turn - 5 * DAY, rollover: { maxCredits: '2' } });
    assert.is((await spend(made.key, '1')).body.billing.totalCredits, '5');
    return made;
  });
  await world.api.stop();
  const turned = await eventually('the period has turned', async () => {
    const { billing } = (await spend(key, '0')).body;
    return billing.totalCredits === '10' ? billing : undefined;
  });
  assert.equal([turned.usedCredits, turned.expiredCredits, turned.availableCredits], ['1', '2', '7']);
  const api = await world.start('api');
  const grants = await eventually('the next two are made', async () => {
    const answer = await world.call('get', `${api.url}/api/v1/customer-billing/${id}/grants`);
    return answer.body.grants?.length === 4 ? (answer.body.grants as Grant[]) : undefined;
  });
  assert.equal(grants.map(numbersIn), ['ACTIVE 1 2 2', 'ACTIVE 0 0 5', 'PENDING 0 0 5', 'PENDING 0 0 5']);
});

test.run();

type Grant = Record<
  'credits' | 'state' | 'name' | 'scheduleId' | 'usedCredits' | 'expiredCredits' | 'remainingCredits',
  string
> &
  Record<'beginsAt' | 'expiresAt' | 'priority', number>;

async function record() {
  const made = await customers.meteredKey('0');
  return { ...made, id: (await customers.billing(made.meter)).id };
}

async function schedule(id: string, { anchorAt, ...body }: { anchorAt?: number } & Record<string, unknown>) {
  const anchor = anchorAt === undefined ? {} : { anchorAt: Math.floor(anchorAt) };
  const path = `/api/v1/customer-billing/${id}/grant-schedule`;
  return (await must(201, world.call('post', path, { ...body, ...anchor }))).body.grantSchedule;
}

async function schedulesOf(id: string) {
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/grant-schedules`))).body.grantSchedules;
}

async function grantsOf(id: string): Promise<Grant[]> {
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/grants`))).body.grants;
}

async function numbersOf(id: string): Promise<string[]> {
  return (await grantsOf(id)).map(numbersIn);
}

function numbersIn({ state, usedCredits, expiredCredits, remainingCredits }: Grant): string {
  return `${state} ${usedCredits} ${expiredCredits} ${remainingCredits}`;
}

/** The instants at which the first two periods of a schedule begin and end. */
async function boundaries(body: { every: string; timezone?: string; anchorAt: number }): Promise<string[]> {
  const { id } = await record();
  await schedule(id, { credits: '1', ...body });
  const grants = await grantsOf(id);
  assert.is(grants.length, 2);
  assert.is(grants[0]!.expiresAt, grants[1]!.beginsAt);
  const instants = [grants[0]!.beginsAt, grants[1]!.beginsAt, grants[1]!.expiresAt];
  return instants.map((ms) => new Date(ms).toISOString().replace('.000Z', 'Z'));
}

function spend(key: string, usage: string) {
  return must(200, customers.verify({ key, billing: { usage } }));
}

async function amountsOf(meter: string): Promise<string[]> {
  const billing = (await customers.billing(meter)) as unknown as Record<string, string>;
  return ['total', 'used', 'available', 'held', 'expired'].map((name) => billing[`${name}Credits`]!);
}
