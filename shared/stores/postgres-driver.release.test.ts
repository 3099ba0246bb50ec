import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { emptyPostgres, wireTo, eventually } from '../../tests/helpers/world.ts';
import { connectPostgres, isPostgresConnectionError, type Query, type Sql } from './postgres.ts';

const SETTLED_WITHIN_MS = 30_000;
const STATEMENT_MS = 2_000;

const url = await emptyPostgres('driver');

test('statements on connections that went silent fail soon, however many are sent, and the next ones succeed', async () => {
  const wire = await wireTo(url);
  const pool = connectPostgres(wire.url, { max: 2, statementTimeoutMs: STATEMENT_MS });
  await settled(Promise.all([pool`select pg_sleep(0.1)`, pool`select pg_sleep(0.1)`]));
  wire.silence();
  const outcomes: unknown[] = [];
  const isAnswered = async () => {
    void outcomeOf(pool`select 1`).then((outcome) => outcomes.push(outcome));
    await sleep(200);
    return outcomes.some((one) => !(one instanceof Error));
  };
  await eventually('one is answered', isAnswered, SETTLED_WITHIN_MS);
  const failures = outcomes.filter((one) => one instanceof Error);
  assert.ok(failures.length > 0);
  for (const one of failures) assert.ok(isPostgresConnectionError(one), String(one));
  await settled(pool.begin((tx) => tx`select 1`));
  // Its idle connections fall silent.
  wire.silence();
  await settled(pool.end());
  await wire.cut();
});

test('no statement that may run is cut, nor an idle connection, a cursor that is read slowly, or an answer that came unread', async () => {
  const silentMs = 4 * STATEMENT_MS + 3_000;
  await Promise.all([
    // One after the other on the connection.
    onOneConnection((one) => Promise.all(Array.from({ length: 12 }, () => one`select pg_sleep(0.75)`))),
    onOneConnection(() => sleep(silentMs)),
    onOneConnection((one) =>
      one.begin(async (tx) => {
        let read = 0;
        for await (const rows of tx`select generate_series(1, 3)`.cursor(1))
          if ((read += rows.length) === 1) await sleep(silentMs);
        assert.is(read, 3);
      }),
    ),
  ]);
  await onOneConnection(async (one) => {
    const answer = outcomeOf(one`select pg_sleep(0.5)`);
    await sleep(100);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, silentMs);
    assert.not.instance(await answer, Error);
  });
});

async function onOneConnection(work: (one: Sql) => Promise<unknown>): Promise<void> {
  const one = connectPostgres(url, { max: 1, statementTimeoutMs: STATEMENT_MS });
  const pid = await pidOf(one);
  // A busy Postgres takes its time; the driver keeps the limit that it was given.
  await one`set statement_timeout = 0`;
  await one`set idle_in_transaction_session_timeout = 0`;
  await work(one);
  assert.is(await pidOf(one), pid);
  await one.end();
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
