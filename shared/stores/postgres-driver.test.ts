import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../tests/helpers/eventually.ts';
import { emptyPostgres } from '../../tests/helpers/world.ts';
import { connectPostgres, isPostgresConnectionError, type Query, type Sql } from './postgres.ts';

const test = suite('the mended driver of Postgres');
const TIMES = 20;
const SETTLED_WITHIN_MS = 4_000;
let url: string;
let admin: Sql;
let sql: Sql;

test.before(async () => {
  url = await emptyPostgres('driver');
  admin = connectPostgres(url, { max: 1 });
  await admin`create table written (what text)`;
});
// As the programs take it: see isPostgresConnectionError.
process.on('unhandledRejection', (error) => {
  if (!isPostgresConnectionError(error)) throw error;
});
test.before.each(async () => {
  await admin`truncate written`;
  // Two, so that other statements soon take the place of a connection that is lost.
  sql = connectPostgres(url, { max: 2 });
});
test.after.each(() => sql.end({ timeout: 0 }));
test.after(() => admin?.end());

test('every statement of a transaction fails once its connection has ended, and none runs outside of it', async () => {
  const others = keepReading();
  for (let i = 0; i < TIMES; i++) {
    const outcomes: unknown[] = [];
    const transaction = sql.begin(async (tx) => {
      await tx`insert into written values ('before')`;
      await end(await pidOf(tx));
      while (outcomes.length < 5) outcomes.push(await outcomeOf(tx`insert into written values (${`after ${i}`})`));
      outcomes.push(await outcomeOf(tx.unsafe(`insert into written values ('after')`)));
      outcomes.push(await outcomeOf(tx.savepoint((inner) => inner`insert into written values ('after')`)));
    });
    assert.ok(isPostgresConnectionError(await outcomeOf(transaction)), `${i}: it fails`);
    await eventually('its work came to its end', async () => outcomes.length === 7, SETTLED_WITHIN_MS);
    for (const one of outcomes) assert.ok(isPostgresConnectionError(one), `${i}: ${String(one)}`);
  }
  await others.stop();
  assert.is((await admin`select from written`).length, 0);
});

test('all statements that wait on a connection fail when it ends, and the next ones have no error of theirs', async () => {
  for (let i = 0; i < TIMES; i++) {
    const transaction = sql.begin(async (tx) => {
      const pid = await pidOf(tx);
      const waiting = [
        tx.savepoint((inner) => inner`select pg_sleep(${30})`),
        tx`insert into written values (${'queued'})`,
        tx`insert into written values (${'queued'}) returning what`,
      ].map(outcomeOf);
      await endOnceAsleep(pid);
      for (const one of await settled(Promise.all(waiting))) assert.ok(isPostgresConnectionError(one), String(one));
    });
    assert.ok(isPostgresConnectionError(await settled(outcomeOf(transaction))));
    await settled(Promise.all([sql`select 1`, sql`select 1`]));
  }
  assert.is((await admin`select from written`).length, 0);
});

test('a reserved connection that has ended says so at each statement, and its pool makes another', async () => {
  for (let i = 0; i < TIMES; i++) {
    const reserved = await settled(sql.reserve());
    await end(await pidOf(reserved));
    for (let j = 0; j < 5; j++) assert.ok(isPostgresConnectionError(await settled(outcomeOf(reserved`select 1`))));
    reserved.release();
    await settled(sql.begin((tx) => tx`select 1`));
  }
});

test('the reader of a cursor whose connection has ended leaves it without harm', async () => {
  const transaction = sql.begin(async (tx) => {
    const pid = await pidOf(tx);
    for await (const rows of tx`select generate_series(1, 10)`.cursor(1)) {
      assert.is(rows.length, 1);
      await end(pid);
      break;
    }
  });
  assert.ok(isPostgresConnectionError(await settled(outcomeOf(transaction))));
  await settled(sql`select 1`);
});

test('a pool ends although a connection ended under a statement', async () => {
  const asleep = outcomeOf(sql`select pg_sleep(30), pg_backend_pid()`);
  const pid = await eventually('it sleeps', async () => {
    const [row] = await admin<{ pid: number }[]>`
      select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`;
    return row?.pid;
  });
  const ended = sql.end();
  await admin`select pg_terminate_backend(${pid})`;
  assert.ok(isPostgresConnectionError(await settled(asleep)));
  await settled(ended);
});

test('transactions are whole, and none waits, while connections end at any moment', async () => {
  const busy = connectPostgres(url, { max: 6 });
  const stored: string[] = [];
  const failures: unknown[] = [];
  let stopped = false;
  const work = Array.from({ length: 12 }, async (_, worker) => {
    for (let i = 0; !stopped; i++) {
      const what = `${worker} ${i}`;
      await settled(
        busy.begin(async (tx) => {
          await tx`insert into written values (${what})`;
          await tx.savepoint((inner) => inner`insert into written values (${what})`);
        }),
      ).then(
        () => stored.push(what),
        (error: unknown) => failures.push(error),
      );
      await settled(outcomeOf(busy`select ${what}::text`));
    }
  });
  for (let i = 1; i <= 200; i++) {
    await eventually('some more are stored', async () => stored.length >= 2 * i, SETTLED_WITHIN_MS);
    await admin`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() order by random() limit 1`;
  }
  stopped = true;
  await Promise.all(work);
  await busy.end({ timeout: 0 });
  for (const error of failures) assert.ok(isPostgresConnectionError(error), String(error));
  const codes = new Set(failures.map((error) => (error as { code: string }).code));
  assert.not(codes.has('CONNECT_TIMEOUT'), 'each connection was made again at once');
  const rows = await admin<{ what: string; times: number }[]>`
    select what, count(*) as times from written group by what`;
  assert.equal(
    rows.filter(({ times }) => times !== 2),
    [],
    'each transaction has both of its rows',
  );
  const found = new Set(rows.map(({ what }) => what));
  assert.equal(
    stored.filter((what) => !found.has(what)),
    [],
    'what was said to be stored is',
  );
  assert.ok(failures.length > 0 && stored.length > 0, `${failures.length} failed, ${stored.length} stored`);
});

/** Ends a connection at Postgres. */
async function end(pid: number): Promise<void> {
  await admin`select pg_terminate_backend(${pid})`;
  const isGone = async () => (await admin`select from pg_stat_activity where pid = ${pid}`).length === 0;
  await eventually('it is gone', isGone);
}

async function endOnceAsleep(pid: number): Promise<void> {
  const isAsleep = async () =>
    (await admin`select from pg_stat_activity where pid = ${pid} and wait_event = 'PgSleep'`).length > 0;
  await eventually('it is under way', isAsleep);
  await admin`select pg_terminate_backend(${pid})`;
}

async function pidOf(query: Query): Promise<number> {
  const [row] = await query<[{ pid: number }]>`select pg_backend_pid() as pid`;
  return row.pid;
}

function outcomeOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error: unknown) => error);
}

/** What a promise gives; fails if it gives nothing for long. */
function settled<Result>(promise: Promise<Result>): Promise<Result> {
  const late = sleep(SETTLED_WITHIN_MS, undefined, { ref: false }).then(() => {
    throw new Error('it hangs');
  });
  return Promise.race([promise, late]);
}

/** Keeps the pool busy with statements of its own. */
function keepReading() {
  let stopped = false;
  const reading = (async () => {
    while (!stopped) await settled(outcomeOf(sql`select 1`));
  })();
  return {
    stop() {
      stopped = true;
      return reading;
    },
  };
}

test.run();
