import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventColumns, type UsageEvent } from '../../../shared/events/event.ts';
import { newId } from '../../../shared/values/ids.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { makeConsumerWorld } from '../helpers/consumer-world.ts';
import { makeLedger } from '../helpers/ledger.ts';
import { copyRecentUse } from './recent-use.ts';

const HOUR_MS = 3_600_000;
const NOON = Date.UTC(2026, 2, 10, 12);
const never = new AbortController().signal;
const own = await makeConsumerWorld();

test('last use and used credits are copied to Postgres; unknown keys and late events change nothing', async () => {
  const { sql, books } = own;
  const { keyId, billingId } = await own.storeKeyAndBilling();
  const now = Date.now();
  const at = (sequence: number, timeMs = now - 1_000_000 + sequence): UsageEvent =>
    testEvent({ billingId, keyId, timeMs, sequence, usedMicros: 100 * sequence });
  const unknown = newId('key');
  await own.book(now, [at(3), at(1), at(2), testEvent({ keyId: unknown })]);
  await copyRecentUse(own, never);
  const read = async () => {
    const [record] =
      await sql`select used_micros, version, updated_at = created_at as untouched from billing_records where id = ${billingId}`;
    const [key] = await sql`select last_used_at from key_last_used where key_id = ${keyId}`;
    return { ...record, lastUsedAt: key!['lastUsedAt'] as number };
  };
  assert.equal(await read(), { usedMicros: 300, version: 1, untouched: true, lastUsedAt: at(3).timeMs });
  assert.is((await sql`select from key_last_used where key_id = ${unknown}`).count, 0);

  // A late event is all that was inserted since the time that this run looks at.
  await sql`update job_watermarks set at = ${now + HOUR_MS} where job = 'recent_use'`;
  const late = at(2, now - 2_000_000);
  await own.book(now, [late]);
  const columns = eventColumns.join(', ');
  await books.client.command({
    query: `insert into usage_events (${columns}, inserted_at)
            select ${columns}, now64(3) + toIntervalHour(2) from usage_events where event_id = {id:String}`,
    query_params: { id: late.id },
  });
  await copyRecentUse(own, never);
  assert.equal(await read(), { usedMicros: 300, version: 1, untouched: true, lastUsedAt: at(3).timeMs });

  await sql`delete from job_watermarks where job = 'recent_use'`;
  await own.book(now, [
    { ...at(4, now), epoch: 1 },
    { ...at(1, now + 5), epoch: 2 },
  ]);
  await copyRecentUse(own, never);
  assert.equal(await read(), { usedMicros: 100, version: 1, untouched: true, lastUsedAt: now + 5 });
});

test('a hold is a use of its key, and what ends it is none: a key is not used again after it was deleted', async () => {
  const { sql } = own;
  const { keyId, billingId } = await own.storeKeyAndBilling();
  const ledger = makeLedger(billingId, { epoch: 1, timeMs: NOON, keyId });
  const hold = ledger.hold(5);
  ledger.at(NOON + 60_000).capture(hold, 5);
  await own.book(NOON, ledger.events);
  await copyRecentUse(own, never);
  const [used] = await sql`select last_used_at as at from key_last_used where key_id = ${keyId}`;
  const [record] = await sql`select used_micros as micros from billing_records where id = ${billingId}`;
  assert.equal([used!['at'], record!['micros']], [NOON, 5]);
});
