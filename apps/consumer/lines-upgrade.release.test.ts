// Books that were written before lines of accounts, and both versions' events in them.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Balance } from '../../shared/books/balances.ts';
import { readBooked } from '../../shared/books/sums/booked-records.ts';
import { carryDecoded } from '../../shared/events/carried-event.ts';
import { dayOf, eventColumns, eventRow, type UsageEvent } from '../../shared/events/event.ts';
import { connectClickHouse, type Books } from '../../shared/stores/clickhouse.ts';
import { knownMigrations, migrateClickHouse } from '../../shared/stores/migrate.ts';
import { newId } from '../../shared/values/ids.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { makeConsumerWorld, type ConsumerWorld } from './helpers/consumer-world.ts';
import { usageByDay } from './helpers/usage-by-day.ts';
import { makeLedger, turnOf } from './helpers/ledger.ts';
import { insertEvents } from './insert-events.ts';
import { rollUp } from './jobs/rollup.ts';

const DAY_MS = 86_400_000;
const NOON = Date.UTC(2026, 2, 10, 12);
const YESTERDAY = NOON - DAY_MS;
const never = new AbortController().signal;
let own: ConsumerWorld;
const test = suite('upgrade to lines');
test.before(async () => {
  own = await makeConsumerWorld();
});
test.after(() => own?.stop());

test('books that were written before lines of accounts keep their sums, and take both versions’ events side by side', async () => {
  const url = new URL(own.world.env.CLICKHOUSE_URL!);
  url.pathname += '_before';
  const { clickhouse: all } = knownMigrations();
  const isNew = (name: string) => name >= '0003';
  const billingId = newId('bill');
  const old = (timeMs: number, sequence: number) =>
    testEvent({ billingId, timeMs, day: dayOf(timeMs), sequence, costMicros: 10, usedMicros: 10 * sequence });
  const before = connectClickHouse(url.href);
  try {
    const { sql } = own.world;
    await migrateClickHouse(url.href, { sql, only: [all[0]!] });
    await bookAsBefore(
      before,
      [1, 2, 3].map((sequence) => old(YESTERDAY, sequence)),
    );
    await migrateClickHouse(url.href, { sql, only: all.filter((name) => !isNew(name)) });
    assert.ok((await migrateClickHouse(url.href, { sql })).every(isNew));
    const mine = { sql: own.world.sql, books: before };
    const sums = async () => (await readBooked(mine, [balanceOf(billingId, 2, [])])).get(billingId)!;
    const { epochs, lastMicros, lastHeldMicros, lastTurn } = await sums();
    assert.equal(epochs[0]!.late, { events: 3, micros: 30, heldMicros: 0, numbers: 3, first: 1, last: 3 });
    assert.equal([lastMicros, lastHeldMicros, lastTurn], [30, 0, undefined]);

    // Every statement runs again, as after a crash between the last one and its note.
    await before.client.command({
      query: "alter table schema_migrations delete where name >= '0003' settings mutations_sync = 2",
    });
    assert.equal(await migrateClickHouse(url.href, { sql }), all.filter(isNew));
    assert.equal((await sums()).epochs, epochs);

    await insertEvents(before, [old(YESTERDAY, 4), old(NOON, 5)].map(carryDecoded));
    const ledger = makeLedger(billingId, { epoch: 1, timeMs: YESTERDAY, sequence: 5, usedMicros: 50 });
    ledger.capture(ledger.hold(5), 7);
    ledger.turn();
    await insertEvents(before, ledger.events.map(carryDecoded));
    await own.world.sql`
      insert into usage_marks (billing_id, day) values (${billingId}, ${dayOf(YESTERDAY)}), (${billingId}, ${dayOf(NOON)})
      on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
    await rollUp(mine, NOON, never);
    const record = await sums();
    assert.equal(record.openDays, [dayOf(NOON)]);
    assert.equal(record.epochs[0]!.late, { events: 8, micros: 57, heldMicros: 0, numbers: 8, first: 1, last: 8 });
    assert.equal([record.lastMicros, record.lastTurn], [57, turnOf(ledger.events)]);
    assert.equal(await usageByDay({ sql: own.world.sql, books: before }, { workspaceId: '', billingId }), [
      { day: dayOf(YESTERDAY), usageName: 'default', costMicros: 40, events: 4 },
      { day: dayOf(YESTERDAY), usageName: 'tokens', costMicros: 7, events: 1 },
      { day: dayOf(NOON), usageName: 'default', costMicros: 10, events: 1 },
    ]);
  } finally {
    await before.client.command({ query: `drop database if exists ${url.pathname.slice(1)}` });
    await before.close();
  }
});

test.run();

function balanceOf(billingId: string, epoch: number, sequences: [number, number][]): Balance {
  const billing = { id: billingId, shard: 0, workspaceId: '', externalMeterId: '' };
  const nothing = { usedMicros: 0, lateMicros: 0, lateEvents: 0, adjustment: 0 };
  return { billing, atMs: 0, epoch, ...nothing, sequences: new Map(sequences) };
}

/** Inserts events as a consumer of the version before does: it knows the columns of then. */
async function bookAsBefore({ client }: Books, events: UsageEvent[]): Promise<void> {
  const isOfThen = (_: unknown, i: number) =>
    i < eventColumns.indexOf('held_micros') && !['workspace_id', 'customer_id'].includes(eventColumns[i]!);
  const columns = eventColumns.filter(isOfThen) as [string, ...string[]];
  const values = events.map((event) => eventRow(event).filter(isOfThen));
  await client.insert({ table: 'usage_events', columns, values, format: 'JSONCompactEachRow' });
}
