import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { UsageEvent } from '../../../shared/events/event.ts';
import { newId } from '../../../shared/values/ids.ts';
import { rowsRead } from '../../../tests/helpers/postgres/rows-read.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { makeConsumerWorld, type ConsumerWorld } from '../helpers/consumer-world.ts';
import { copyRecentUse } from './recent-use.ts';

const MANY = 20_000;
const SOME = 1_000;
const never = new AbortController().signal;
let own: ConsumerWorld;
const test = suite('recent use');
test.before(async () => {
  own = await makeConsumerWorld();
});
test.after(() => own?.stop());

test('last use and used credits are copied to Postgres; unknown keys and late events change nothing', async () => {
  const { sql } = own.world;
  const { keyId, billingId } = await own.storeKeyAndBilling();
  const now = Date.now();
  const at = (sequence: number, timeMs = now - 1_000_000 + sequence): UsageEvent =>
    usage(billingId, { keyId, timeMs, sequence, usedMicros: 100 * sequence });
  await own.book(now, [at(3), at(1), at(2), usage('', { keyId: newId('key') })]);
  await copyRecentUse(stores(), never);
  const read = async () => {
    const [record] =
      await sql`select used_micros, version, updated_at = created_at as untouched from billing_records where id = ${billingId}`;
    const [key] = await sql`select last_used_at from key_last_used where key_id = ${keyId}`;
    return { ...record, lastUsedAt: key!.lastUsedAt as number };
  };
  assert.equal(await read(), { usedMicros: 300, version: 1, untouched: true, lastUsedAt: at(3).timeMs });
  assert.is((await sql`select from key_last_used`).count, 1);

  // The newer events have been in the books since before the time that this run looks at.
  await sql`update job_watermarks set at = ${Date.now() + 61_000} where job = 'recent_use'`;
  await sleep(1_100);
  await own.book(now, [at(2, now - 2_000_000)]);
  await copyRecentUse(stores(), never);
  assert.equal(await read(), { usedMicros: 300, version: 1, untouched: true, lastUsedAt: at(3).timeMs });

  await own.book(now, [
    { ...at(4, now), epoch: 1 },
    { ...at(1, now + 5), epoch: 2 },
  ]);
  await copyRecentUse(stores(), never);
  assert.equal(await read(), { usedMicros: 100, version: 1, untouched: true, lastUsedAt: now + 5 });
});

test('used credits of some records are copied without a look at all the others', async () => {
  const { sql, team } = own.world;
  const workspaceId = await own.world.newWorkspace(team.id);
  await sql`
    insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
    select 'bill_' || lpad(i::text, 8, '0'), ${team.id}, ${workspaceId}, i::text, i % 64, 0, false
    from generate_series(1, ${MANY}::int) as i`;
  await sql.unsafe('analyze billing_records');
  const some = await sql<{ id: string }[]>`
    select id from billing_records where workspace_id = ${workspaceId} order by id limit ${SOME}`;
  const now = Date.now();
  await own.book(
    now,
    some.map(({ id }) => usage(id, { workspaceId, timeMs: now, sequence: 1, usedMicros: 5 })),
  );
  await sql.begin(async (tx) => {
    const read = await rowsRead(tx, 'billing_records', () => copyRecentUse({ sql: tx, books: own.books }, never));
    assert.ok(read <= 3 * SOME, `${read} rows are read`);
  });
  assert.is((await sql`select from billing_records where used_micros = 5`).count, SOME);
});

test.run();

function stores() {
  return { sql: own.world.sql, books: own.books };
}

function usage(billingId: string, more: Partial<UsageEvent> = {}): UsageEvent {
  return testEvent({ billingId, ...more });
}
