import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey } from '../../../shared/books/billing-refs.ts';
import { storeWatermark } from '../../../shared/events/watermark.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { listen } from '../../../tests/helpers/listen.ts';
import { recordOf } from '../../../tests/helpers/pass-time.ts';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { eventually, once as key, wireTo } from '../../../tests/helpers/world.ts';
import { TURNS } from '../http/fair-turns.ts';
import { startApiBy } from './helpers/own-api.ts';
import { callsOf, makeCustomers, makeWorld, must, newWorkspace, refused } from './helpers/calls.ts';

// A failure on our side, or on the way to us, has an answer that says so.
const DEADLINE_MS = 60_000;
let begins: (deadline: () => void) => void;
let asked = (_query: string) => {};
let waits = systemClock.after;
// At first what is repeated is repeated at once.
let pauses: typeof systemClock.sleep = (ms, signal) => systemClock.sleep(Math.min(ms, 10), signal);
let toPostgres = (_bytes: Buffer, _connection: object) => {};
/** What an api looks for unasked, and has not looked for yet. */
const unasked = new Set([
  "created_at < now() - interval '3 seconds'",
  '(next_at, id) >',
  'coalesce(keys_removed_at',
  'select billing_id from unsettled_records',
  'from audit_unchained',
  '"secret_sealed" as first',
  '"private_encrypted" as first',
]);
const hung = createServer(
  (request) => void text(request).then((query) => asked(decodeURIComponent(request.url!) + query)),
);
const world = await makeWorld();
const { redis } = world;
const calls = callsOf(world);
const wire = await wireTo(world.env.DATABASE_URL!, () => {
  const connection = {};
  return (bytes) => {
    for (const one of unasked) if (bytes.includes(one)) unasked.delete(one);
    toPostgres(bytes, connection);
  };
});
const { url: hungUrl } = await listen(hung);
const clock: typeof systemClock = {
  ...systemClock,
  sleep: (ms, signal) => pauses(ms, signal),
  after(ms, work) {
    if (ms < DEADLINE_MS - 1_000) return waits(ms, work);
    begins(work);
    return () => {};
  },
};
// What waits for a rebuild, which begins once the books are current.
await world.sql`insert into unsettled_records (billing_id, shard) values ('bill_of_nobody', 0)`;
await storeWatermark(world.sql, 9e15);
/** Has books that hang, and deadlines that come when the test says so. */
const api = await startApiBy(clock, world, {
  // The wire sees the text of each statement, not only of the first.
  DATABASE_URL: `${wire.url}?prepare=false`,
  CLICKHOUSE_URL: `${hungUrl}/none`,
  REQUEST_DEADLINE_MS: String(DEADLINE_MS),
});

test('an api looks by itself for what waits, is due or deleted, has ended, or is to be settled, chained or sealed anew', async () => {
  await eventually('it has looked for all of it', async () => unasked.size === 0).catch(() => {});
  assert.equal([...unasked], []);
  pauses = systemClock.sleep;
});

test('a body that does not arrive in time is a 408; a request that takes too long is a 503, and nothing is stored; one whose commit runs by then says that it may be stored, and is', async () => {
  const { id, token } = await world.newTeam();
  const make = () => callsOf(world, token).ask('post', `${api.url}/api/v1/workspace`, { name: 'n' });
  const stored = async () => (await world.sql`select from workspaces where team_id = ${id}`).count;
  const head = `POST /api/v1/workspace HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
  begins = (deadline) => setImmediate(deadline);
  const [late] = (await speak(api.url, [`${head}Content-Length: 100\r\n\r\n{`])).answers;
  assert.equal([late!.status, JSON.parse(late!.text).error.code], [408, 40801]);
  assert.is(late!.headers.get('connection'), 'close');
  // In the middle of its transaction.
  begins = (deadline) => (toPostgres = (bytes) => bytes.includes('insert into workspaces') && deadline());
  await refused(50307, make());
  await turnsAreOver(token);
  assert.is(await stored(), 0);
  let writes: object | undefined;
  begins = (deadline) =>
    (toPostgres = (bytes, connection) => {
      if (bytes.includes('insert into workspaces')) writes = connection;
      else if (connection === writes && bytes.includes('commit')) deadline();
    });
  await refused(50310, make());
  await turnsAreOver(token);
  await eventually('it is stored', async () => (await stored()) === 1);
});

test('while the books hang, a read of them ends at its deadline and gives its turn back', async () => {
  const workspaceId = await world.newWorkspace(world.team.id);
  const { id } = await calls.make('/api/v1/customer-billing', { workspaceId, externalMeterId: 'hung' });
  const reached = Promise.withResolvers<void>();
  let reads = 0;
  asked = (query) => query.includes(id) && ++reads === TURNS.ofToken && reached.resolve();
  const deadlines: (() => void)[] = [];
  begins = (deadline) => deadlines.push(deadline);
  const answers = Array.from({ length: TURNS.ofToken }, () => world.call('get', `${api.url}/api/v1/usage/${id}`));
  await reached.promise;
  for (const over of deadlines.splice(0)) over();
  for (const answer of answers) await refused(50307, answer);
  await calls.read(`${api.url}/api/v1/workspace`);
});

test('while the books hang or are cut off, what waits for them is a 503 that says when to come back, as a file too', async () => {
  const workspaceId = await world.newWorkspace(world.team.id);
  const { id } = await calls.make('/api/v1/customer-billing', { workspaceId, externalMeterId: 'hung' });
  begins = () => {};
  let late: (() => void)[] = [];
  waits = (ms, work) => {
    if (ms === 5_000) late.push(work);
    return systemClock.after(ms, work);
  };
  const span = 'from=2026-09-01&to=2026-09-30';
  const statement = `/api/v1/customer-billing/${id}/statement?${span}`;
  for (const [path, question] of [
    [statement, 'usage_events'],
    [`${statement}&format=csv`, 'usage_events'],
    [`/api/v1/statements?workspaceId=${workspaceId}&${span}&format=csv`, '/ping'],
    [`/api/v1/usage?workspaceId=${workspaceId}&format=csv`, '/ping'],
  ] as const) {
    late = [];
    asked = (query) => {
      if (!query.includes(question)) return;
      // What waits for its own time waits no more; what has none is cut off.
      if (late.length === 0) hung.closeAllConnections();
      for (const over of late) over();
    };
    const { status, body, headers } = await world.call('get', `${api.url}${path}`);
    assert.equal([status, body.error?.code, headers.get('retry-after')], [503, 50303, '1'], path);
  }
  waits = systemClock.after;
});

test('what a token has waiting is bounded: more gets 429, and another team is answered meanwhile', async () => {
  const [busy, calm] = [await world.newTeam(), await world.newTeam()];
  const list = (path: string, token: string) => world.call('get', path, undefined, { token });
  let lists: ReturnType<typeof list>[] = [];
  await world.sql.begin(async (tx) => {
    // Nothing that reads workspaces ends before this transaction.
    await tx`lock table workspaces in access exclusive mode`;
    const waiting = { length: TURNS.ofToken + TURNS.waitingOfToken + 1 };
    lists = Array.from(waiting, () => list('/api/v1/workspace?limit=1', busy.token));
    const first = await Promise.race(lists);
    await refused(42921, first);
    assert.is(first.headers.get('retry-after'), '1');
    await must(200, list('/api/v1/quota', calm.token));
  });
  await Promise.all(lists);
});

test('a request that loses Postgres in its commit says that it may be stored', async () => {
  await world.sql.unsafe(`
    create function lose_commit() returns trigger language plpgsql as
      'begin perform pg_terminate_backend(pg_backend_pid()); return null; end';
    create constraint trigger lose_commit after insert on workspaces deferrable initially deferred
      for each row when (new.name = 'lost') execute function lose_commit()`);
  await refused(50310, calls.ask('post', '/api/v1/workspace', { name: 'lost' }));
});

test('a change that Postgres ends in favour of another is made again, and is stored once', async () => {
  await world.sql.unsafe(`
    create sequence endings;
    grant usage on sequence endings to public;
    create function end_twice() returns trigger language plpgsql as $$
      begin
        case nextval('endings') when 1 then raise exception using errcode = '40P01';
          when 2 then raise exception using errcode = '40001'; else null; end case;
        return new;
      end $$;
    create trigger end_twice before insert on adjustments for each row execute function end_twice()`);
  const id = await newRecord();
  const { body } = await must(201, adjust(id));
  assert.is(body.adjustment.number, 1);
  assert.is((await world.sql`select from adjustments where billing_id = ${id}`).count, 1);
});

test('a repetition that arrives while the first request runs is a 409 that says when to try again', async () => {
  const id = key();
  const both = await world.sql.begin(async (tx) => {
    await tx`lock table workspaces in share mode`;
    const asked = [1, 2].map(() => calls.ask('post', '/api/v1/workspace', { name: 'w' }, id));
    const answer = await Promise.race(asked);
    await refused(40905, answer);
    assert.is(answer.headers.get('retry-after'), '1');
    return { asked };
  });
  const statuses = (await Promise.all(both.asked)).map(({ status }) => status);
  assert.ok(statuses.includes(201) && statuses.includes(409), statuses.join());
});

test('an internal fault is a 500 that tells nothing about it', async () => {
  await calls.make('/api/v1/jwt', { payload: {} });
  await world.sql`update signing_keys set private_encrypted = '\\x00' where team_id = ${world.team.id}`;
  const { message } = await refused(50001, calls.ask('post', '/api/v1/jwt', { payload: {} }));
  assert.is(message, 'Something went wrong on our side; it was logged with the request id.');
});

// It comes into force once it can: apps/api/sync/sweeper.test.ts.
test('a change that is stored but not in force says so', async () => {
  const record = await recordOf(world.sql, await newRecord());
  // Whoever reads it brings it up to date.
  await calls.read(`/api/v1/customer-billing/${record.id}`);
  const [{ client }, name] = [redis.node(record.shard), billingKey(record)];
  const fields = await client.hgetallBuffer(name);
  await client.hdel(name, 't');
  await refused(50304, adjust(record.id));
  await client.hset(name, fields);
});

test('a change with a number above one that Postgres has lost does not take its place', async () => {
  const [{ lost }] = await world.sql<[{ lost: number }]>`select max(id) + 1 as lost from changes`;
  await world.sql`select setval('changes_id_seq', ${lost + 31})`;
  const [{ client }, meta] = [redis.node(0), keyspace.meta(0)];
  const had = (await client.hget(meta, 'change'))!;
  await client.hset(meta, 'change', lost);
  await refused(50309, calls.ask('post', '/api/v1/workspace', { name: 'lost' }));
  await client.hset(meta, 'change', had);
  await eventually('changes are taken', async () => {
    const { status } = await calls.ask('post', '/api/v1/workspace', { name: 'found' });
    return status === 201;
  });
});

test('a change that another one has overtaken is not mistaken for one of an older Postgres', async () => {
  // Each connection takes numbers ahead: one change of the api, and its next ones are before the number that others have reached.
  await world.sql`alter sequence changes_id_seq cache 1000`;
  const make = (name: string) => calls.make('/api/v1/workspace', { name });
  await Promise.all(Array.from({ length: 20 }, () => make('before')));
  const [{ later }] = await world.sql<[{ later: number }]>`select last_value as later from changes_id_seq`;
  await world.sql`
    insert into changes (id, kind, entity_id, applied_at) overriding system value values (${later}, 'workspace', 'ws_gone', now())`;
  for (const shard of ALL_SHARDS) await redis.node(shard).client.hset(keyspace.meta(shard), 'change', later);
  const workspace = await make('overtaken');
  const [first] = await world.sql<[{ id: number }]>`
    select min(id) as id from changes where entity_id = ${workspace.id}`;
  assert.ok(first.id < later);
});

// Last: it ends that api.
test('without Postgres its operations are a 503; clients that leave before their answer are no errors in the log', async () => {
  await wire.cut();
  await refused(50302, calls.ask('get', `${api.url}/api/v1/workspace`));
  for (let i = 0; i < 20; i++) {
    const socket = connect(Number(new URL(api.url).port), '127.0.0.1');
    await once(socket, 'connect');
    // Several at once: the first answers are on their way when the connection ends.
    socket.write('GET /gone HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(10), () => socket.resetAndDestroy());
  }
  hung.closeAllConnections();
  await api.stop();
  assert.not.match(JSON.stringify(api.lines), /EPIPE|ECONNRESET.*an answer could not be sent/);
});

/** The turns of its token go round: what was given up is over then. */
async function turnsAreOver(token: string): Promise<void> {
  toPostgres = () => {};
  begins = () => {};
  for (let i = 0; i < TURNS.ofToken; i++) await callsOf(world, token).read(`${api.url}/api/v1/workspace`);
}

async function newRecord(): Promise<string> {
  const customers = makeCustomers(world, await newWorkspace(world));
  const { id } = await customers.billing(await customers.newMeter({ totalCredits: '10' }));
  await calls.make(`/api/v1/customer-billing/${id}/grant`, { credits: '5', priority: 10 }, key());
  return id;
}

function adjust(id: string) {
  return calls.ask('post', `/api/v1/customer-billing/${id}/adjustment`, { amount: '1', reason: 'r' }, key());
}
