import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { unprovedMeters } from '../../../../shared/books/meters/proof.ts';
import { planMeters } from '../../../consumer/jobs/plan-meters.ts';
import { systemClock } from '../../../../shared/runtime/clock.ts';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { storeWatermark } from '../../../../shared/events/watermark.ts';
import { connectPostgres } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { HOUR_MS, meterKinds } from '../../../../shared/values/meter-kinds.ts';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import { webhookSealer, webhookSecretPlace } from '../../../../shared/values/webhook-secret.ts';
import { bookEvents } from '../../../../tests/helpers/carry.ts';
import { testEvent } from '../../../../tests/helpers/events.ts';
import { callsOf, codesOf, column, columns, makeWorld, must, refused } from '../../tests/helpers/calls.ts';

const PATH = '/api/v1/meter-destination';
const TODAY_MS = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const YESTERDAY_MS = TODAY_MS - DAY_MS;
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);

const log = makeLogger('test', 'silent');
const world = await makeWorld();
const by = callsOf(world);
let workspaceId: string;
test.before.each(async () => void (workspaceId = (await by.make('/api/v1/workspace', { name: 'w' })).id));

const create = (body: object = {}, { ask } = by) =>
  ask('post', PATH, { workspaceId, kind: 'stripe', name: 'Stripe', secret: 'sk_live_1', ...body });
const made = async (body: object = {}) => (await must(201, create(body))).body.destination;
const pathOf = ({ id }: { id: string }) => `${PATH}/${id}`;
const newRecord = (body: object = {}) =>
  by.make('/api/v1/customer-billing', { workspaceId, externalMeterId: `m-${newId('bill')}`, ...body });
// Planned with the rights of the consumer, as there.
const asConsumer = new URL(process.env.TEST_CONSUMER_POSTGRES_URL!);
asConsumer.pathname = new URL(world.env.DATABASE_URL!).pathname;
const consumerSql = connectPostgres(asConsumer.href);
test.after(() => consumerSql.end());
const plan = () => planMeters({ ...world, sql: consumerSql }, systemClock, log, new AbortController().signal);
const book = ({ id: billingId }: { id: string }, timeMs: number, costMicros: number, usageName = 'tokens') =>
  bookEvents(world, Date.now(), [testEvent({ timeMs, billingId, costMicros, usageName })]);
const adjust = ({ id: billingId }: { id: string }, timeMs: number, costMicros: number) => {
  const adjustment = { kind: 'adjustment', keyId: '', number: 1, usageName: 'tokens' } as const;
  return bookEvents(world, Date.now(), [testEvent({ timeMs, billingId, costMicros, ...adjustment })]);
};

async function planYesterday() {
  await storeWatermark(world.sql, TODAY_MS);
  await plan();
}
const since = { startsAt: new Date(YESTERDAY_MS).toISOString() };
const events = async (one: { id: string }, query = '') => (await by.read(`${pathOf(one)}/events?${query}`)) as any[];
const redeliver = async (one: { id: string }, eventIds?: string[]) =>
  (await must(200, by.ask('post', `${pathOf(one)}/redeliver`, eventIds && { eventIds }))).body;
const proof = (one: { id: string }, ms = YESTERDAY_MS) =>
  by.read(`${pathOf(one)}/proof?month=${dayOf(ms).slice(0, 7)}`);

test('a destination is told with its defaults, and its secret is sealed, in no answer and in no line of the audit log', async () => {
  const { id, createdAt, updatedAt, startsAt, ...fields } = await made({ startsAt: since.startsAt });
  assert.equal(fields, {
    workspaceId,
    kind: 'stripe',
    name: 'Stripe',
    url: meterKinds.stripe.url,
    eventNames: {},
    measure: 'credits',
    unit: '1',
    batchSize: 1,
    enabled: true,
    waitingEvents: 0,
    failedEvents: 0,
  });
  assert.equal([startsAt, updatedAt], [since.startsAt, createdAt]);
  const [row] = await world.sql`select * from meter_destinations where id = ${id}`;
  const sealed = row!['secretSealed'] as Buffer;
  assert.is(webhookSealer([Buffer.alloc(32, 7)]).unseal(sealed, webhookSecretPlace(id)), 'sk_live_1');
  const audit = await world.sql`select before, after from audit_log where resource_id = ${id}`;
  assert.is(audit.length, 1);
  assert.not.match(JSON.stringify([audit, await by.read(`${PATH}/${id}`), await by.read(PATH)]), 'sk_live_1');
  assert.match((await made({ kind: 'http', url: 'https://meters.example.com', secret: undefined })).secret, /^whsec_/);
});

test('what a kind does not take is refused with what would be right', async () => {
  const url = 'https://meters.example.com';
  const wrong: [body: object, path: string][] = [
    [{ secret: undefined }, '/secret'],
    [{ secret: 'sk live' }, '/secret'],
    [{ unit: '0' }, '/unit'],
    [{ batchSize: 2 }, '/batchSize'],
    [{ url: 'https://localhost/' }, '/url'],
    [{ kind: 'cloudevents' }, '/url'],
    [{ kind: 'openmeter', unit: '1' }, '/unit'],
    [{ kind: 'http', url }, '/secret'],
    [{ startsAt: '2026-11-20T08:10:00.000Z' }, '/startsAt'],
    [{ startsAt: '2020-01-01T00:00:00.000Z' }, '/startsAt'],
    [{ eventNames: { tokens: '' } }, '/eventNames/tokens'],
    [{ eventNames: { tokens: 'a\u0000' } }, '/eventNames/tokens'],
  ];
  for (const [body, path] of wrong) {
    const { details } = await refused(40001, create(body), path);
    assert.is(details[0].path, path);
  }
});

test('another url needs the secret with it: nobody has a secret sent elsewhere who does not know it', async () => {
  const one = await made();
  const url = 'https://meters.example.com/v1';
  await refused(40001, by.ask('patch', pathOf(one), { url }));
  assert.is((await by.change(pathOf(one), { url, secret: 'sk_live_2', enabled: false })).url, url);
  await refused(40001, by.ask('patch', pathOf(await made({ kind: 'http', url, secret: undefined })), { secret: 'x' }));
  const open = await made({ kind: 'cloudevents', url, secret: undefined });
  assert.is((await by.change(pathOf(open), { url: `${url}/v2` })).url, `${url}/v2`, 'it has none');
});

test('a workspace has at most 10 destinations, also when many are made at once; one of a deleted workspace is gone with its secret', async () => {
  const answers = await Promise.all(Array.from({ length: 12 }, () => create()));
  assert.equal(codesOf(answers), [...Array(10).fill(201), 40980, 40980]);
  const [one, ...others] = await by.read(`${PATH}?workspaceId=${workspaceId}`);
  assert.is(others.length, 9);
  await by.remove(pathOf(one));
  await refused(40470, by.ask('get', pathOf(one)));
  await by.remove(`/api/v1/workspace/${workspaceId}`);
  const rows = await world.sql`
    select secret_sealed, enabled from meter_destinations where workspace_id = ${workspaceId} and deleted_at is not null`;
  assert.equal([rows.length, rows.every((row) => row['secretSealed'] === null && !row['enabled'])], [10, true]);
});

test('each closed hour of a record and a usage name is planned once; a late event and an adjustment are corrections with the next number', async () => {
  const one = await made({
    ...since,
    kind: 'openmeter',
    secret: undefined,
    eventNames: { tokens: 'llm_tokens', internal: null },
  });
  const record = await newRecord({ externalIds: { [one.id]: 'cus_1' } });
  await book(record, YESTERDAY_MS + 1, 1_500_000);
  await book(record, YESTERDAY_MS + HOUR_MS, 2_000_000, 'internal');
  await storeWatermark(world.sql, YESTERDAY_MS + HOUR_MS - 1);
  await plan();
  assert.equal(await events(one), [], 'no hour is over');
  for (let twice = 0; twice < 2; twice++) await planYesterday();
  await book(record, YESTERDAY_MS + 2, 250_000);
  await adjust(record, YESTERDAY_MS + 5 * HOUR_MS, -1_000_000);
  await planYesterday();
  const hour = new Date(YESTERDAY_MS).toISOString();
  const told = ['hour', 'usageName', 'number', 'credits', 'events', 'value', 'state', 'externalId', 'eventName'];
  assert.equal(columns((await events(one)).toReversed(), ...told), [
    [hour, 'tokens', 0, '1.5', 1, '1.5', 'WAITING', 'cus_1', 'llm_tokens'],
    [new Date(YESTERDAY_MS + HOUR_MS).toISOString(), 'internal', 0, '2', 1, '0', 'LEFT_OUT', 'cus_1', ''],
    [hour, 'tokens', 1, '-0.75', 1, '-0.75', 'WAITING', 'cus_1', 'llm_tokens'],
  ]);
  const { status, usage, leftOut, waiting, sent, difference } = await proof(one);
  assert.equal([status, usage, leftOut, waiting, sent, difference], ['PENDING', '2.75', '2', '0.75', '0', '0']);
  assert.equal(column(await events(one, 'state=LEFT_OUT'), 'usageName'), ['internal']);
  const notes = async () =>
    (await world.sql`select from meter_days where destination_id = ${one.id} and day = ${dayOf(YESTERDAY_MS)}`).length;
  assert.is(await notes(), 1, 'until no server opens the day again');
  await storeWatermark(world.sql, TODAY_MS + HOUR_MS);
  await plan();
  assert.is(await notes(), 0);
});

test('Stripe gets whole units: what is below one, or negative, is carried to the next hour, and the proof has it', async () => {
  const one = await made({ ...since, unit: '0.5' });
  const [record, leftOut] = [await newRecord(), await newRecord({ externalIds: { [one.id]: null } })];
  for (const [hour, micros] of [1_700_000, 200_000, 200_000].entries())
    await book(record, YESTERDAY_MS + hour * HOUR_MS, micros);
  await book(leftOut, YESTERDAY_MS, 9_000_000);
  await planYesterday();
  const told = async () =>
    columns((await events(one, `billingId=${record.id}`)).toReversed(), 'credits', 'value', 'state');
  assert.equal(await told(), [
    ['1.7', '3', 'WAITING'],
    ['0.2', '0', 'CARRIED'],
    ['0.2', '1', 'WAITING'],
  ]);
  assert.equal((await proof(one)).rests, '0.1');
  await adjust(record, YESTERDAY_MS, -1_100_000);
  await planYesterday();
  assert.equal((await told()).at(-1), ['-1.1', '0', 'CARRIED']);
  await book(record, YESTERDAY_MS + 9 * HOUR_MS, 1_500_000);
  await planYesterday();
  assert.equal((await told()).at(-1), ['1.5', '1', 'WAITING']);
  const { usage, leftOut: out, rests, waiting, difference } = await proof(one);
  assert.equal([usage, out, rests, waiting, difference], ['11.5', '9', '0', '2.5', '0']);
  await world.sql`update meter_events set state = 'SENT' where destination_id = ${one.id} and state = 'WAITING'`;
  assert.is((await proof(one)).status, 'EXACT');
  await world.sql`update meter_rests set micros = micros + 1 where destination_id = ${one.id}`;
  assert.is((await proof(one)).status, 'DIFFERENT', 'what is carried on was lost');
});

test('a dry run shows what would be sent for a day, and plans nothing', async () => {
  const one = await made({ enabled: false });
  const record = await newRecord();
  await book(record, YESTERDAY_MS, 1_700_000);
  const path = `${pathOf(one)}/preview?day=`;
  const { events: shown, isWhole } = (await must(200, by.ask('get', path + dayOf(YESTERDAY_MS)))).body;
  assert.equal(
    [columns(shown, 'billingId', 'credits', 'value', 'externalId', 'eventName', 'state'), isWhole],
    [[[record.id, '1.7', '1', record.externalMeterId, 'tokens', 'WAITING']], true],
  );
  await planYesterday();
  assert.equal(await events(one), []);
  for (const day of [dayOf(TODAY_MS + 2 * DAY_MS), '1969-12-31']) await refused(40001, by.ask('get', path + day));
});

test('what failed for good waits again on request, under what its record is called by now', async () => {
  const one = await made(since);
  const record = await newRecord();
  for (const hour of [0, 1]) await book(record, YESTERDAY_MS + hour * HOUR_MS, 1_000_000);
  await planYesterday();
  await world.sql`update meter_events set state = 'FAILED', error = '400: No such customer', ended_at = now() where destination_id = ${one.id}`;
  assert.equal(columns([await by.read(pathOf(one))], 'failedEvents', 'waitingEvents'), [[2, 0]]);
  assert.is((await proof(one)).status, 'DIFFERENT');
  const unproved = await Array.fromAsync(unprovedMeters(world, Date.now()));
  const its = unproved.filter(({ destinationId }) => destinationId === one.id);
  const month = dayOf(YESTERDAY_MS).slice(0, 7);
  assert.equal(columns(its, 'month', 'status', 'failed'), [[month, 'DIFFERENT', 2_000_000n]]);
  await by.change(`/api/v1/customer-billing/${record.id}`, { externalIds: { [one.id]: 'cus_2' } });
  const [{ id }] = await events(one, 'state=FAILED');
  assert.equal(await redeliver(one, [id, newId('mev')]), { redelivered: 1, remaining: 1 });
  assert.equal(await redeliver(one), { redelivered: 1, remaining: 0 });
  const waits = ['WAITING', 'cus_2', undefined];
  assert.equal(columns(await events(one), 'state', 'externalId', 'error'), [waits, waits]);
});

test('what may have arrived is sent again only where it is named', async () => {
  const one = await made(since);
  const record = await newRecord();
  for (const hour of [0, 1, 2]) await book(record, YESTERDAY_MS + hour * HOUR_MS, 1_000_000);
  await planYesterday();
  await world.sql`update meter_events set state = 'FAILED' where destination_id = ${one.id}`;
  const [tried, old] = column(await events(one), 'id');
  await world.sql`update meter_events set tried_at = now() - interval '2 days' where id = ${tried}`;
  // Of before a restore.
  await world.sql`update meter_events set hour = hour - interval '1 day' where id = ${old}`;
  await world.sql`update meter_destinations set restored_at = ${since.startsAt} where id = ${one.id}`;
  for (const redelivered of [1, 0]) assert.equal(await redeliver(one), { redelivered, remaining: 0 });
  assert.equal(await redeliver(one, [tried, old]), { redelivered: 2, remaining: 0 });
  const rows = await world.sql<{ isNew: boolean }[]>`
    select tried_at > now() - interval '1 hour' as is_new from meter_events where id in ${world.sql([tried, old])}`;
  assert.equal(column(rows, 'isNew'), [true, true], 'known again from now on');
});

test('what failed is sent under the names of now, and left out with what was carried to it carried on where these leave it out', async () => {
  const one = await made(since);
  const record = await newRecord();
  for (const [hour, micros] of [700_000, 600_000].entries()) await book(record, YESTERDAY_MS + hour * HOUR_MS, micros);
  await planYesterday();
  const failAndRedeliver = async () => {
    await world.sql`update meter_events set state = 'FAILED' where destination_id = ${one.id} and state = 'WAITING'`;
    return (await redeliver(one)).redelivered;
  };
  const told = async () => columns((await events(one)).toReversed(), 'credits', 'value', 'state', 'eventName');
  await by.change(pathOf(one), { eventNames: { tokens: 'llm' } });
  assert.is(await failAndRedeliver(), 1);
  assert.equal((await told()).at(-1), ['0.6', '1', 'WAITING', 'llm']);
  const path = `/api/v1/customer-billing/${record.id}`;
  await by.change(path, { externalIds: { [one.id]: null } });
  assert.is(await failAndRedeliver(), 0);
  assert.equal((await told()).at(-1), ['0.6', '0', 'LEFT_OUT', 'llm']);
  await by.change(path, { externalIds: null });
  await book(record, YESTERDAY_MS + 2 * HOUR_MS, 400_000);
  await planYesterday();
  assert.equal((await told()).at(-1), ['0.4', '1', 'WAITING', 'llm']);
  const { leftOut, rests, waiting } = await proof(one);
  assert.equal([leftOut, rests, waiting], ['0.6', '0.1', '1']);
});

test('a destination that can not be proved keeps no other from being proved', async () => {
  const [broken, other] = [await made(since), await made(since)];
  const month = dayOf(YESTERDAY_MS).slice(0, 7);
  for (const [{ id }, amount] of [
    [broken, '0.5'],
    [other, '1'],
  ] as const)
    await world.sql`
      insert into meter_sums (destination_id, month, state, team_id, number, micros, events, quantity)
      values (${id}, ${month}, 'FAILED', ${world.team.id}, 1, ${amount}, 0, 0)`;
  const found = await Array.fromAsync(unprovedMeters(world, Date.now()));
  const statusOf = ({ id }: { id: string }) =>
    found.find((one) => one.destinationId === id && one.month === month)?.status;
  assert.equal([broken, other].map(statusOf), ['UNKNOWN', 'DIFFERENT']);
  await world.sql`delete from meter_sums where destination_id = ${broken.id}`;
});

test('a correction goes to where what it corrects went, whatever names are by now', async () => {
  const one = await made({ ...since, kind: 'openmeter', secret: undefined });
  const [record, out] = [await newRecord(), await newRecord({ externalIds: { [one.id]: null } })];
  for (const used of [record, out]) await book(used, YESTERDAY_MS, 1_000_000);
  await planYesterday();
  await by.change(pathOf(one), { eventNames: { tokens: 'llm' } });
  for (const { id } of [record, out])
    await by.change(`/api/v1/customer-billing/${id}`, { externalIds: { [one.id]: 'later' } });
  for (const used of [record, out]) await book(used, YESTERDAY_MS + 1, 500_000);
  await book(record, YESTERDAY_MS + HOUR_MS, 250_000);
  await planYesterday();
  const told = async ({ id }: { id: string }) =>
    columns((await events(one, `billingId=${id}`)).toReversed(), 'credits', 'state', 'externalId', 'eventName');
  const { externalMeterId } = record;
  assert.equal(await told(record), [
    ['1', 'WAITING', externalMeterId, 'tokens'],
    ['0.5', 'WAITING', externalMeterId, 'tokens'],
    ['0.25', 'WAITING', 'later', 'llm'],
  ]);
  assert.equal(column(await events(one, `billingId=${out.id}`), 'state'), ['LEFT_OUT', 'LEFT_OUT']);
});

test('usage without a record makes no difference, also of a day that is not summed up', async () => {
  const dayMs = TODAY_MS - 3 * DAY_MS;
  const one = await made({ startsAt: new Date(dayMs).toISOString(), kind: 'openmeter', secret: undefined });
  await book(await newRecord(), dayMs, 1_000_000);
  await bookEvents(world, Date.now(), [
    testEvent({ timeMs: dayMs, workspaceId, billingId: '', costMicros: 0, usageName: 'tokens' }),
  ]);
  await planYesterday();
  const [{ isPlanned }] = await world.sql<[{ isPlanned: boolean }]>`
    select count(*) = 0 as is_planned from meter_days where destination_id = ${one.id} and day = ${dayOf(dayMs)}`;
  assert.ok(isPlanned);
  assert.is((await proof(one, dayMs)).status, 'PENDING', 'what waits is all');
  await world.sql`update meter_events set state = 'SENT' where destination_id = ${one.id}`;
  assert.is((await proof(one, dayMs)).status, 'EXACT');
});
