import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { addGrant, countBegun } from '../../../apps/api/resources/grants/classes.ts';
import { voidGrants } from '../../../apps/api/resources/grants/voids.ts';
import { copyRecentUse } from '../../../apps/consumer/jobs/recent-use.ts';
import { beginRecord, classOf, endingClass, NOON, settingsOf } from '../../../tests/accounts/begin.ts';
import type { Answered } from '../../../tests/accounts/product-scripts.ts';
import { setClock, SHARD } from '../../../tests/accounts/test-shard.ts';
import { bookEvents } from '../../../tests/helpers/carry.ts';
import { connectTestStores } from '../../../tests/helpers/test-stores.ts';
import { connectTestRedis, columns } from '../../../tests/helpers/world.ts';
import { eventColumns } from '../../events/event.ts';
import type { Query } from '../../stores/postgres.ts';
import { newId } from '../../values/ids.ts';
import type { BillingRef } from '../billing-refs.ts';
import { inOrder, type Movement } from './movements.ts';
import { spanOfMonth } from './span.ts';
import { makeStatements, type Statement } from './statements.ts';

// Characters, as JSON. A statement shows at most 2,000 movements of a kind one by one.
const MOST_READ = 500_000;
const START_MS = Date.parse('2026-09-01');
const DAY_MS = 86_400_000;
const DAYS = 30;
const stores = await connectTestStores();

test('what very many lines let expire is read by day, and the statement is as if each had been read', async () => {
  const [busy, calm] = await newRecords();
  const change = (number: number, expired: number): Change => [number, 0, 0, expired];
  const wanted = {
    [busy.id]: await expire(busy, 30_000, (i) => (i % 10 === 0 ? [[3, 0, 0, 2]] : [change(2, 4), change(4, 2)])),
    [calm.id]: await expire(calm, 4_000, (i) => (i % 2 === 0 ? [] : i % 4 === 1 ? [[2, -6, 0, 6]] : [[3, 0, -1, 1]])),
  };
  const { statements, read } = await september([busy, calm]);
  assert.ok(read < MOST_READ, `${read} characters are read`);
  for (const { billingId, movements, closing } of statements) {
    sameText(movements, inOrder(wanted[billingId]!));
    assert.is(closing.expiredMicros, sumOf(wanted[billingId]!));
  }
  assert.equal(statements.map(({ movements }) => movements.length).join(), `${2 * DAYS},2000`);
});

test('very many adjustments are read by day, and the statement is as if each had been read', async () => {
  const [busy, calm] = await newRecords();
  const wanted = {
    [busy.id]: [...(await adjust(busy, 20_000)), ...(await lose(busy, 1_000))],
    [calm.id]: [...(await adjust(calm, 500)), ...(await lose(calm, 500))],
  };
  const { statements, read } = await september([busy, calm]);
  assert.ok(read < MOST_READ, `${read} characters are read`);
  for (const { billingId, movements, byName, closing } of statements) {
    sameText(movements, inOrder(wanted[billingId]!));
    const used = wanted[billingId]!.filter((one) => one.kind !== 'loss');
    const [calls, tokens] = ['calls', 'tokens'].map((name) => sumOf(used.filter((one) => one.name === name)));
    sameText(byName, { calls: { micros: calls, events: 0 }, tokens: { micros: tokens, events: DAYS } });
    assert.is(closing.usedMicros, calls! + tokens!);
  }
  assert.equal(statements.map(({ movements }) => movements.length).join(), `${2 * DAYS + 1_000},${DAYS + 1_000}`);
});

test('what the books come to say otherwise of what a closed month let expire is told late by the next statement, once it is settled', async () => {
  // More that came late, less that did, and what comes while the statement is made.
  for (const [late, meanwhile] of [
    [5, 0],
    [-3, 0],
    [0, 4],
  ] as const) {
    const [record] = await newRecords();
    const { id, workspaceId } = record;
    await stores.sql`
      insert into statement_lines (workspace_id, month, billing_id, team_id, end_ms, opening_total_micros, opening_used_micros,
                                   opening_expired_micros, total_micros, used_micros, expired_micros, by_name, movements, proof)
      values (${workspaceId}, '2026-08', ${id}, ${stores.team.id}, ${START_MS}, 0, 0, 0, 0, 0, 7, '{}', '[]', '{"status":"EXACT"}')`;
    const book = async (days: Record<string, number>) => {
      const values = Object.entries(days).map(([day, micros]) =>
        eventOf(record, `${day}T00:00:00`, { kind: 'moment', classes: [[2, 0, 0, micros]] }),
      );
      await stores.books.client.insert({ table: 'usage_events', values, format: 'JSONEachRow' });
      await stores.sql`
        insert into usage_marks (workspace_id, billing_id, day)
        select ${workspaceId}, ${id}, day from unnest(${Object.keys(days)}::date[]) day`;
    };
    await book({ '2026-08-10': 7, '2026-08-20': late, '2026-09-03': 2, '2026-10-03': 1 });
    const onQuery = (query: string) => (query.includes('told_as') ? book({ '2026-10-04': meanwhile }) : undefined);
    const [statement] = (await september([record], onQuery)).statements;
    const { opening, movements, closing } = statement!;
    assert.equal(columns(movements, 'day', 'kind', 'balance', 'micros'), [
      ...(late === 0 ? [] : [['2026-09-01', 'late', 'expired', late]]),
      ['2026-09-03', 'expired', 'expired', 2],
    ]);
    assert.equal([opening.expiredMicros, closing.expiredMicros], [7, 9 + late]);
  }
});

test('what remains by a statement, and by the copy of a record, is what the record has, also of a grant that ended or began before Redis heard of its void', async () => {
  const { client } = (await connectTestRedis()).node(SHARD);
  const maker = { teamId: stores.team.id, tokenId: stores.team.tokenId, requestId: 'req' };
  const plain = classOf({ begunMicros: 50 });
  const ending = endingClass(NOON + 100, 20);
  for (const [ends, movements] of [
    [true, ['granted 20', 'granted 7', 'expired 7', 'expired -7', 'voided 7']],
    [false, ['granted 20', 'granted 7', 'voided 6']],
  ] as const) {
    await client.flushdb();
    const pending = [{ beginsAtMs: NOON + 10, micros: 7 }];
    const record = await beginRecord(client, [plain, { ...ending, pending }]);
    const [{ workspaceId }] = await newRecords();
    const { billingId: id } = record;
    await stores.sql`
      insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages, created_at)
      values (${id}, ${stores.team.id}, ${workspaceId}, 'm', ${SHARD}, 50, false, ${new Date(NOON)})`;
    const given = { priority: 10, expiresAt: NOON + 100 };
    const grant = { ...given, id: newId('grant'), amountMicros: 20, beginsAt: NOON };
    const later = { ...given, id: newId('grant'), amountMicros: 7, beginsAt: NOON + 10 };
    for (const one of [grant, later]) await addGrant(stores.sql, { id }, one, maker, NOON);
    // Postgres has counted it as begun when it voids it, or never does.
    if (ends) await countBegun(stores.sql, { id }, NOON + 10);
    const which = stores.sql`id = ${later.id}`;
    await voidGrants(stores.sql, { id }, { which, reason: 'r' }, { ...maker, atMs: NOON + 9 });
    await record.verify(14, { name: 'held', micros: 6, forMs: 60_000, onExpiry: 'release' });
    await setClock(client, NOON + (ends ? 100 : 10));
    await record.verify(1);
    if (!ends) await record.declare(settingsOf(id, [plain, ending], { version: 2 }));
    await record.voidGrant(3, 2, ends ? 20 : -1, 7);
    const [{ amounts }] = (await record.verify(0)) as [Answered];
    await bookEvents(stores, NOON, record.lines);

    const span = spanOfMonth('2027-01', 'UTC');
    const billing = { id, workspaceId, shard: SHARD, externalMeterId: 'm' };
    const asked = { workspaceId, billings: [billing], span, nowMs: NOON + 1_000, patienceMs: 0 };
    const [statement] = (await makeStatements(stores, asked)).statements;
    const told = statement!.movements.filter(({ balance }) => balance !== 'used');
    const late = told.map(({ kind, micros }) => `${kind} ${micros}`);
    assert.equal(late, movements);
    const [used, held, total, expired] = amounts.split(' ').map(Number) as [number, number, number, number];
    const { totalMicros, usedMicros, expiredMicros } = statement!.closing;
    assert.equal([usedMicros, totalMicros, expiredMicros], [used, total, expired]);

    // The copy goes by the clock of the books.
    await stores.sql`update grants set begins_at = 1 where billing_id = ${id}`;
    const copied = async () => {
      await copyRecentUse(stores, new AbortController().signal);
      const [row] = await stores.sql`
        select used_micros, held_micros, greatest(total_of_account_micros, total_micros + granted_micros) as total, expired_micros
        from billing_records where id = ${id}`;
      return Object.values(row!);
    };
    assert.equal(await copied(), [used, held, total, expired]);
    // A run that sees the last line alone, which is plain usage, says the same.
    await stores.sql`update job_watermarks set at = ${Date.now() + DAY_MS}`;
    const names = eventColumns.join();
    await stores.books.client.command({
      query: `insert into usage_events (${names}, inserted_at)
              select ${names}, now64(3) + toIntervalDay(2) from usage_events where event_id = {id:String}`,
      query_params: { id: record.lines.at(-1)!.id },
    });
    assert.equal(await copied(), [used, held, total, expired]);
  }
});

/** Makes statements of September; tells how many characters were read for them. */
async function september(
  billings: BillingRef[],
  onQuery = (_query: string): Promise<void> | undefined => undefined,
): Promise<{ statements: Statement[]; read: number }> {
  const { books, redis } = stores;
  let read = 0;
  const count = <Rows>(rows: Rows): Rows => {
    read += JSON.stringify(rows).length;
    return rows;
  };
  const sql = new Proxy(stores.sql, {
    apply(target, self, args) {
      const query = Reflect.apply(target, self, args);
      const then = query.then?.bind(query);
      if (then) Reflect.set(query, 'then', (done: any, failed: any) => then((rows: any) => done(count(rows)), failed));
      return query;
    },
  });
  const query = async (asked: any) => {
    await onQuery(asked.query);
    const answer = await books.client.query(asked);
    return { json: async () => count(await answer.json()) };
  };
  const counting = { sql: sql as Query, redis, books: { ...books, client: { query } as any } };
  const [{ workspaceId }] = billings as [BillingRef];
  const asked = { workspaceId, billings, span: spanOfMonth('2026-09', 'UTC'), nowMs: Date.now(), patienceMs: 0 };
  const { statements } = await makeStatements(counting, asked);
  return { statements, read };
}

async function newRecords(): Promise<[BillingRef, BillingRef]> {
  const workspaceId = newId('ws');
  await stores.sql`insert into workspaces (id, team_id, name) values (${workspaceId}, ${stores.team.id}, 'w')`;
  const records = [1, 2].map((i) => ({ id: newId('bill'), shard: i, workspaceId, externalMeterId: `meter ${i}` }));
  for (const { id, shard, externalMeterId } of records)
    await stores.sql`
      insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages, has_classes,
                                   created_at)
      values (${id}, ${stores.team.id}, ${workspaceId}, ${externalMeterId}, ${shard}, 0, false, true, '2026-08-01')`;
  return records as [BillingRef, BillingRef];
}

type Change = [number, number, number, number];

/** Books lines that change classes, voids where the first of them is class 3 and it holds nothing; gives the movements of each. */
async function expire(record: BillingRef, lines: number, changes: (i: number) => Change[]): Promise<Movement[]> {
  const movements: Movement[] = [];
  const values = Array.from({ length: lines }, (_, i) => {
    const classes = changes(i);
    const isVoid = classes[0]?.[0] === 3 && classes[0][2] === 0;
    const told = { day: dayOf(i, lines), kind: isVoid ? 'voided' : 'expired', name: '', balance: 'expired' } as const;
    for (const [, , , micros] of classes) movements.push({ ...told, micros });
    const kind = isVoid ? 'adjustment' : 'moment';
    return eventOf(record, timeOf(i, lines), { kind, epoch: 1, seq: i + 1, classes });
  });
  await stores.books.client.insert({ table: 'usage_events', values, format: 'JSONEachRow' });
  return movements;
}

/** Books a verification on each day, and adjustments; gives the movements of each. */
async function adjust(record: BillingRef, adjustments: number): Promise<Movement[]> {
  const { id, workspaceId } = record;
  const verification = { kind: 'verification', key_id: 'key', usage_name: 'tokens', cost_micros: 1_000_000 };
  const used = Array.from({ length: DAYS }, (_, i) => eventOf(record, timeOf(i, DAYS), verification));
  const adjusted = Array.from({ length: adjustments }, (_, i) =>
    eventOf(record, timeOf(i, adjustments), {
      kind: 'adjustment',
      usage_name: i % 3 === 0 ? 'tokens' : 'calls',
      cost_micros: i % 2 === 0 ? 5 : -2,
      number: i + 1,
      actor: 'tok',
      reason: 'counted twice',
    }),
  );
  await stores.books.client.insert({ table: 'usage_events', values: [...used, ...adjusted], format: 'JSONEachRow' });
  const days = used.map(({ day }) => day);
  await stores.sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into usage_marks (workspace_id, billing_id, day) select ${workspaceId}, ${id}, day from unnest(${days}::date[]) day`;
    await tx`
      insert into adjustments (id, team_id, billing_id, number, amount_micros, usage_name, day, reason, token_id, request_id)
      select ${id} || day, ${stores.team.id}, ${id}, place, 1, '', day, '', '', ''
      from unnest(${days}::date[]) with ordinality as one (day, place)`;
  });
  return [
    ...used.map(({ day, usage_name: name, cost_micros: micros }): Movement => {
      return { day, kind: 'usage', name, balance: 'used', micros, events: 1 };
    }),
    ...adjusted.map(({ day, usage_name: name, cost_micros: micros, event_id: eventId, actor, reason }): Movement => {
      return { day, kind: 'adjustment', name, balance: 'used', micros, eventId, tokenId: actor, reason };
    }),
  ];
}

/** Stores losses; gives the movements of each. */
async function lose({ id }: BillingRef, losses: number): Promise<Movement[]> {
  const all = Array.from({ length: losses }, (_, i) => i);
  await stores.sql`
    insert into usage_losses (billing_id, epoch, after_seq, events, amount_micros, found_at)
    select ${id}, 1, i, 2, case when i % 2 = 0 then i end, at
    from unnest(${all}::bigint[], ${all.map((i) => timeOf(i, losses))}::timestamptz[]) as one (i, at)`;
  return all.map((i): Movement => {
    const priced = i % 2 === 0 ? { lostMicros: i } : {};
    return { day: dayOf(i, losses), kind: 'loss', name: '', balance: 'used', micros: 0, events: 2, ...priced };
  });
}

/** An event of a record, in columns of the books. */
function eventOf<More extends object>({ id, workspaceId }: BillingRef, time: string, more: More) {
  return { workspace_id: workspaceId, billing_id: id, day: time.slice(0, 10), time, event_id: newId('evt'), ...more };
}

/** The time of one of so many in September; those beyond are of October. */
function timeOf(i: number, of: number): string {
  return new Date(START_MS + Math.floor((i * DAYS * DAY_MS) / of)).toISOString().slice(0, -1);
}

function dayOf(i: number, of: number): string {
  return timeOf(i, of).slice(0, 10);
}

function sumOf(movements: Movement[]): number {
  return movements.reduce((sum, { micros }) => sum + micros, 0);
}

/** A closed month is stored as text, and stays the same bytes. */
function sameText(value: unknown, wanted: unknown): void {
  assert.is(JSON.stringify(value), JSON.stringify(wanted));
}
