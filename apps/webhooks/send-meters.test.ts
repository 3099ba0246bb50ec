import { rejects } from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { proveMeter } from '../../shared/books/meters/proof.ts';
import { plannedBy, type MeterRow } from '../api/resources/meters.ts';
import { planMeters } from '../consumer/jobs/plan-meters.ts';
import { allowWorkspace } from '../../shared/books/usage/allowed-workspace.ts';
import { storeWatermark } from '../../shared/events/watermark.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import { systemClock, type Clock } from '../../shared/runtime/clock.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { distrustMeters } from '../../shared/stores/meters.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import { formatCredits, parseSignedCredits } from '../../shared/values/credits.ts';
import { newId } from '../../shared/values/ids.ts';
import { HOUR_MS, meterKinds, type MeterKind } from '../../shared/values/meter-kinds.ts';
import { DAY_MS } from '../../shared/values/periods.ts';
import { newWebhookSecret, webhookSealer, webhookSecretPlace } from '../../shared/values/webhook-secret.ts';
import { bookEvents } from '../../tests/helpers/carry.ts';
import { makeHastyClock } from '../../tests/helpers/clock.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { makeMeterReceiver } from '../../tests/helpers/meter-receivers.ts';
import { connectTestStores } from '../../tests/helpers/test-stores.ts';
import type { Outcome } from './call.ts';
import { claimDestination, meterLags, pauseAfter, sendSlice } from './send-meters.ts';
import { columns } from '../../tests/helpers/columns.ts';

// Usage on its way to external meters, a step at a time: a test books, plans as the consumer does, and sends to receivers that hold to
// the rules of the other sides. How an address is called: call.test.ts.

const stores = await connectTestStores();
const { sql, team } = stores;
const log = makeLogger('test', 'silent');
const sealer = webhookSealer([Buffer.alloc(32, 7)]);
const never = new AbortController().signal;
const TODAY_MS = Math.floor(Date.now() / DAY_MS) * DAY_MS;
// It waits for nothing, and gives up what fails at once.
const impatient: Clock = { ...makeHastyClock(), after: (_, work) => (work(), () => {}) };
// Three days of hours that are over, in one month or in two.
const START_MS = TODAY_MS - 4 * DAY_MS;

type Answering = 'well' | 'lost answer' | 'no answer' | 'no connection' | '429' | '500';
type Made = Awaited<ReturnType<typeof newDestination>>;

async function newWorkspace(records = 2) {
  const id = newId('ws');
  await sql`insert into workspaces (id, team_id, name) values (${id}, ${team.id}, 'w')`;
  const billingIds = Array.from({ length: records }, () => newId('bill'));
  for (const billingId of billingIds)
    await sql`
      insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
      values (${billingId}, ${team.id}, ${id}, ${`cus_${billingId}`}, 0, 0, true)`;
  return { id, billingIds };
}

/** A destination with a receiver. */
async function newDestination(
  workspaceId: string,
  kind: MeterKind,
  chosen: Record<string, string | number | boolean> = {},
) {
  const id = newId('dest');
  const secret = kind === 'http' ? newWebhookSecret() : 'sk_test';
  await sql`
    insert into meter_destinations ${sql({
      id,
      team_id: team.id,
      workspace_id: workspaceId,
      kind,
      name: kind,
      url: 'https://meters.example.com',
      event_names: '{}',
      measure: 'credits',
      unit_micros: 1_000_000,
      batch_size: meterKinds[kind].batchSize,
      starts_at: new Date(START_MS).toISOString(),
      secret_sealed: sealer.seal(secret, webhookSecretPlace(id)) as never,
      sealed_under: sealer.keyName,
      ...chosen,
    })}`;
  const receiver = makeMeterReceiver(kind, { now: Date.now, secret });
  const states = async () => {
    const rows = await sql<{ state: string; count: number }[]>`
      select state, count(*)::int as count from meter_events where destination_id = ${id} group by 1`;
    return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
  };
  return {
    id,
    kind,
    receiver,
    states,
    /** Sends one slice of what waits, if it may be claimed; gives whether it was. */
    async send(
      answering: (body: string) => Answering | Promise<Answering> = () => 'well',
      over: Sql = sql,
      stopping?: AbortSignal,
    ): Promise<boolean> {
      await sql`update meter_destinations set claimed_until = null, next_at = now() where id = ${id}`;
      await sql`update meter_destinations set next_at = now() + interval '1 hour' where id <> ${id}`;
      const claimed = await claimDestination(sql);
      if (!claimed) return false;
      assert.is(claimed.id, id);
      const call = async ({ headers, body }: { headers: Record<string, string>; body: string }): Promise<Outcome> => {
        const how = await answering(body);
        if (how === 'no answer') return { error: 'socket hang up', durationMs: 1 };
        if (how === 'no connection') return { error: 'connect ECONNREFUSED', isUnsent: true, durationMs: 1 };
        if (how === '429') return { status: 429, answer: 'slower', durationMs: 1, retryAfter: '2' };
        if (how === '500') return { status: 500, answer: 'oh', durationMs: 1 };
        const answer = await receiver.answer({ headers, body }, () => turn());
        return how === 'lost answer' ? { error: 'socket hang up', durationMs: 1 } : { ...answer, durationMs: 1 };
      };
      const options = { sql: over, call, sealer, metrics: makeMetrics('test'), log, clock: impatient, random: () => 0 };
      await sendSlice(options, claimed, stopping);
      return true;
    },
    async sendAll() {
      for (let slices = 0; await this.send(); slices++) assert.ok(slices < 50, 'it comes to an end');
    },
    /** The proof of each month that has usage. */
    async proofs() {
      const [row] = await sql<[MeterRow]>`select * from meter_destinations where id = ${id}`;
      const months = [...new Set([START_MS, TODAY_MS].map((ms) => new Date(ms).toISOString().slice(0, 7)))];
      const asked = { workspace: allowWorkspace(workspaceId), nowMs: Date.now() };
      return Promise.all(months.map((month) => proveMeter(stores, plannedBy(row), { month, ...asked })));
    },
  };
}

const plan = (over: Sql = sql) => planMeters({ ...stores, sql: over }, systemClock, log, never);
const reach = (ms: number) => storeWatermark(sql, ms);
const book = (billingId: string, atMs: number, costMicros: number, chosen: Partial<UsageEvent> = {}) =>
  bookEvents(stores, Date.now(), [testEvent({ timeMs: atMs, billingId, costMicros, ...chosen })]);
let adjustments = 0;
const adjust = (billingId: string, atMs: number, costMicros: number) =>
  book(billingId, atMs, costMicros, { kind: 'adjustment', keyId: '', number: ++adjustments });

/** Throws again what is not by a death. */
function onlyDeath(error: Error): void {
  if (!/it died|planning failed/.test(error.message)) throw error;
}

/** The same connections, on which a process dies before a statement: it and all later ones fail. */
function dyingAt(statement: number): Sql {
  let left = statement;
  const dying = <Query extends object>(one: Query): Query =>
    new Proxy(one, {
      apply(target, self, args: [TemplateStringsArray]) {
        if (Array.isArray(args[0]?.raw) && left-- <= 0) throw new Error('it died');
        return Reflect.apply(target as never, self, args);
      },
      get(target, name) {
        if (name !== 'begin') return Reflect.get(target, name);
        return (work: (tx: object) => Promise<unknown>) => sql.begin((tx) => work(dying(tx)));
      },
    });
  return dying(sql);
}

const sumOf = (texts: string[]) => texts.reduce((sum, text) => sum + parseSignedCredits(text)!, 0);
const stripeSum = ({ receiver }: Made) => sumOf([...receiver.taken.values()].map(({ value }) => value));

test('whatever is booked late, adjusted, lost or cut off, each identity is taken once, and sums are exact to the last decimal', async () => {
  const hour = fc.nat({ max: 71 });
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('use' as const),
        of: fc.nat({ max: 1 }),
        hour,
        micros: fc.integer({ min: 0, max: 5_000_000 }),
        name: fc.constantFrom('', 'tokens'),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('adjust' as const),
        of: fc.nat({ max: 1 }),
        hour,
        micros: fc.integer({ min: -3_000_000, max: 3_000_000 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('reach' as const), hour: fc.nat({ max: 96 }) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('plan' as const), diesAt: fc.option(fc.nat({ max: 60 })) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('send' as const),
        to: fc.nat({ max: 4 }),
        diesAt: fc.option(fc.nat({ max: 4 })),
        answering: fc.array(fc.constantFrom<Answering>('well', 'lost answer', 'no answer', '429', '500'), {
          minLength: 1,
          maxLength: 4,
        }),
      }),
    },
  );
  const run = async (steps: fc.Arbitrary<unknown> extends never ? never : any[]) => {
    const workspace = await newWorkspace();
    const destinations: Made[] = [];
    for (const kind of Object.keys(meterKinds) as MeterKind[])
      destinations.push(await newDestination(workspace.id, kind, kind === 'lago' ? { batch_size: 3 } : {}));
    let [used, events] = [0, 0];
    await reach(START_MS);
    for (const one of steps) {
      const atMs = START_MS + one.hour * HOUR_MS + 60_000;
      if (one.do === 'use' || one.do === 'adjust') {
        used += one.micros;
        if (one.do === 'use') await book(workspace.billingIds[one.of]!, atMs, one.micros, { usageName: one.name });
        else await adjust(workspace.billingIds[one.of]!, atMs, one.micros);
        events += Number(one.do === 'use');
      } else if (one.do === 'reach') await reach(START_MS + one.hour * HOUR_MS);
      else if (one.do === 'plan') await plan(one.diesAt === null ? sql : dyingAt(one.diesAt)).catch(onlyDeath);
      else {
        let calls = 0;
        const answering = () => one.answering[calls++ % one.answering.length]!;
        await destinations[one.to]!.send(answering, one.diesAt === null ? sql : dyingAt(one.diesAt)).catch(onlyDeath);
      }
    }
    await reach(TODAY_MS);
    await plan();
    for (const destination of destinations) {
      await destination.sendAll();
      const { kind, receiver, id } = destination;
      const { WAITING: waiting = 0, FAILED: failed = 0 } = await destination.states();
      assert.equal([kind, waiting, failed], [kind, 0, 0]);
      const proofs = await destination.proofs();
      assert.equal(
        columns(proofs, 'status', 'difference'),
        proofs.map(() => ['EXACT', 0n]),
        kind,
      );
      const taken = [...receiver.taken.values()];
      const [{ rests }] = await sql<[{ rests: number }]>`
        select coalesce(sum(micros), 0)::bigint as rests from meter_rests where destination_id = ${id}`;
      assert.is(formatCredits(stripeSum(destination) + rests), formatCredits(used), kind);
      if (kind !== 'stripe')
        assert.is(
          taken.reduce((sum, one) => sum + one.events!, 0),
          events,
          kind,
        );
      const sent = await sql`select from meter_events where destination_id = ${id} and state = 'SENT'`;
      assert.is(taken.length, sent.length, kind);
    }
  };
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), run), {
    numRuns: 4,
    seed: 43,
    endOnFailure: true,
  });
});

/** A destination with so many hours of one record that wait. */
async function withWaiting(kind: MeterKind, hours: number, chosen: Record<string, string | number> = {}) {
  const workspace = await newWorkspace(1);
  const destination = await newDestination(workspace.id, kind, chosen);
  for (let i = 0; i < hours; i++) await book(workspace.billingIds[0]!, START_MS + i * HOUR_MS, 1_000_000);
  await reach(TODAY_MS);
  await plan();
  return destination;
}

const read = async ({ id }: { id: string }) => (await sql`select * from meter_destinations where id = ${id}`)[0]!;

test('events of one customer and meter are sent one after the other, as Stripe asks for, and each once', async () => {
  const one = await withWaiting('stripe', 6);
  await one.send();
  assert.equal([await one.states(), one.receiver.taken.size, one.receiver.repeated()], [{ SENT: 6 }, 6, 0]);
});

test('what blames the destination puts all off, and it catches up; what blames an event fails that event alone', async () => {
  const one = await withWaiting('lago', 5);
  await one.send(() => '429');
  const { attempts, failingSince, lastError } = await read(one);
  assert.equal([attempts, failingSince !== null, lastError], [1, true, '429: slower']);
  await one.send(() => 'no connection');
  const tried = await sql`select from meter_events where destination_id = ${one.id} and tried_at is not null`;
  assert.equal([await one.states(), tried.length], [{ WAITING: 5 }, 0]);
  const stripe = await withWaiting('stripe', 2);
  await sql`
    update meter_events set external_id = 'nobody' where id = (select min(id) from meter_events where destination_id = ${stripe.id})`;
  await stripe.send();
  assert.equal(await stripe.states(), { SENT: 1, FAILED: 1 });
  await one.send();
  assert.equal([await one.states(), (await read(one))['failingSince']], [{ SENT: 5 }, null]);
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
  const tried =
    await sql`select from meter_events where destination_id = ${one.id} and state = 'WAITING' and tried_at is not null`;
  const { attempts, claimedUntil } = await read(one);
  assert.equal(
    [await one.states(), tried.length, attempts, claimedUntil !== null],
    [{ SENT: 1, WAITING: 1 }, 1, 0, true],
  );
});

test('a planner that has lost its job to another takes nothing back that the other planned', async () => {
  const { id, billingIds } = await newWorkspace(1);
  const one = await newDestination(id, 'openmeter');
  await plan();
  await book(billingIds[0]!, START_MS, 1_000_000);
  await reach(TODAY_MS);
  let others = 0;
  const slow = new Proxy(sql, {
    get: (target, name) =>
      name !== 'begin'
        ? Reflect.get(target, name)
        : async (work: Parameters<Sql['begin']>[1]) => {
            if (others++ === 0) {
              await book(billingIds[0]!, START_MS, 2_000_000);
              await plan();
            }
            return sql.begin(work as never);
          },
  });
  await plan(slow);
  const planned = await sql`select micros from meter_events where destination_id = ${one.id}`;
  assert.equal([others > 0, planned.map(({ micros }) => micros)], [true, [3_000_000]]);
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
  const { workspaceId } = await read(await withWaiting('http', 1));
  const other = await newDestination(workspaceId as string, 'http');
  await newDestination(workspaceId as string, 'http');
  assert.is(await lag(), 0);
  const [{ billingId }] = await sql<
    [{ billingId: string }]
  >`select id as billing_id from billing_records where workspace_id = ${workspaceId}`;
  const stands = new Date(START_MS).toISOString();
  await sql`insert into meter_days ${sql({ destinationId: other.id, teamId: team.id, billingId, day: stands, plannedTo: stands })}`;
  assert.ok((await lag()) > 3 * 86_400);
  await sql`delete from meter_days where destination_id = ${other.id}`;
});

test('a process that stops ends what is under way, and leaves the rest of a slice as it was', async () => {
  const one = await withWaiting('stripe', 3);
  const stopping = new AbortController();
  await one.send(() => (stopping.abort(), 'well'), sql, stopping.signal);
  const tried =
    await sql`select from meter_events where destination_id = ${one.id} and state = 'WAITING' and tried_at is not null`;
  assert.equal([await one.states(), tried.length], [{ SENT: 1, WAITING: 2 }, 0]);
});

test('usage that can not be planned holds up no other, and fails the job', async () => {
  const { id, billingIds } = await newWorkspace(3);
  const one = await newDestination(id, 'openmeter');
  for (const billingId of billingIds) await book(billingId, START_MS, 1_000_000);
  // A number that is taken.
  const taken = { destinationId: one.id, teamId: team.id, billingId: billingIds[1]!, usageName: 'default', number: 1 };
  const hour = new Date(START_MS).toISOString();
  const empty = { micros: 0, events: 0, quantity: 0, externalId: '', eventName: '', state: 'SENT' };
  await sql`insert into meter_events ${sql({ id: newId('mev'), hour, ...taken, ...empty })}`;
  await reach(TODAY_MS);
  await rejects(plan(), /planning failed 1 times/);
  assert.equal(await one.states(), { SENT: 1, WAITING: 2 });
  await sql`delete from meter_events where destination_id = ${one.id} and number = 1`;
  await plan();
  assert.equal(await one.states(), { WAITING: 3 });
});

test('a disabled destination is sent nothing, and what is used meanwhile waits', async () => {
  const one = await withWaiting('openmeter', 1);
  await sql`update meter_destinations set enabled = false where id = ${one.id}`;
  assert.equal([await one.send(), await one.states()], [false, { WAITING: 1 }]);
});

test('webhooks hear once of a destination that has taken nothing for an hour, and of events that failed', async () => {
  const one = await withWaiting('stripe', 1);
  const { workspaceId } = await read(one);
  await sql`
    insert into webhooks (id, team_id, workspace_id, url, events)
    values (${newId('hook')}, ${team.id}, ${workspaceId}, 'https://hooks.example.com', '{meter.failed}')`;
  const told = async () => {
    await plan();
    return sql<{ data: object }[]>`select data from webhook_events where subject_id = ${one.id} order by created_at`;
  };
  await one.send(() => '500');
  assert.is((await told()).length, 0);
  await sql`update meter_destinations set failing_since = now() - interval '61 minutes' where id = ${one.id}`;
  for (let twice = 0; twice < 2; twice++) assert.is((await told()).length, 1);
  await sql`update meter_events set external_id = 'nobody' where destination_id = ${one.id}`;
  await one.send();
  const data = (await told()).at(-1)!.data;
  assert.equal(data, {
    destinationId: one.id,
    name: 'stripe',
    kind: 'stripe',
    failedEvents: 1,
    error: `400: {"error":{"message":"No such customer: 'nobody'"}}`,
  });
});

test('a slice pauses longer after each failure, as long as Retry-After says, and a quarter of an hour at most', () => {
  assert.equal(
    [1, 2, 5, 40].map((failures) => pauseAfter(failures, undefined, 0)),
    [1_000, 2_000, 16_000, 900_000],
  );
  assert.equal([pauseAfter(1, '30', 0), pauseAfter(1, '99999', 0), pauseAfter(1, 'soon', 1)], [30_000, 900_000, 1_100]);
});
