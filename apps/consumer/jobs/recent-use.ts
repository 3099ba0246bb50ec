import { readLateVoids, takenOf } from '../../../shared/books/late-voids.ts';
import { readBooked, sum } from '../../../shared/books/sums/booked.ts';
import { readRows, type Books } from '../../../shared/stores/clickhouse.ts';
import { eachOf, type Query } from '../../../shared/stores/postgres.ts';

type Stores = { sql: Query; books: Books };

// Longer than an insert may take. A slower one is given up and sent again, with a newer inserted_at.
const MARGIN_MS = 60_000;

/**
 * Copies to Postgres when keys were last used and what of their credits billing records have used and reserved, from the events that were
 * inserted since the last run. Reading an event twice changes nothing.
 */
export async function copyRecentUse({ sql, books }: Stores, signal: AbortSignal): Promise<void> {
  const [watermark] = await sql<{ at: number }[]>`select at from job_watermarks where job = 'recent_use'`;
  const [clock] = await readRows<[nowMs: string]>(books, 'select toUnixTimestamp64Milli(now64(3))');
  const insertedFromMs = Math.max(0, (watermark?.at ?? 0) - MARGIN_MS);
  await copyLastUsed({ sql, books }, insertedFromMs, signal);
  await copyUsedCredits({ sql, books }, insertedFromMs, signal);
  await sql`
    insert into job_watermarks (job, at) values ('recent_use', ${Number(clock![0])})
    on conflict (job) do update set at = excluded.at`;
}

async function copyLastUsed({ sql, books }: Stores, insertedFromMs: number, signal: AbortSignal): Promise<void> {
  const answer = await books.client.query({
    query: `select key_id, toUnixTimestamp64Milli(max(time))
            from usage_events
            where key_id != '' and kind in ('verification', 'hold') and inserted_at >= fromUnixTimestamp64Milli({insertedFromMs:Int64})
            group by key_id`,
    query_params: { insertedFromMs },
    format: 'JSONCompactEachRow',
  });
  for await (const chunk of answer.stream<[keyId: string, timeMs: string]>()) {
    signal.throwIfAborted();
    const rows = chunk.map((row) => row.json());
    await sql`
      insert into key_last_used as known (key_id, team_id, last_used_at)
      select used.key_id, api_keys.team_id, used.at
      from unnest(${rows.map(([keyId]) => keyId)}::text[], ${rows.map(([, timeMs]) => Number(timeMs))}::bigint[]) as used (key_id, at)
      join api_keys on api_keys.id = used.key_id
      order by used.key_id
      on conflict (key_id) do update set last_used_at = excluded.last_used_at where known.last_used_at < excluded.last_used_at`;
  }
}

/** `late`: what was granted of what only Redis has begun. */
type Amounts = { used: number; held: number; expired?: number; late?: number };

async function copyUsedCredits(stores: Stores, insertedFromMs: number, signal: AbortSignal): Promise<void> {
  const answer = await stores.books.client.query({
    query: `select billing_id, argMax(used_micros, (epoch, seq, number)), argMax(held_micros, (epoch, seq, number)),
              max(kind = 'moment' or arrayExists(change -> change.4 != 0, classes))
                or max(time) < fromUnixTimestamp64Milli({insertedFromMs:Int64}), any(workspace_id)
            from usage_events
            where billing_id != '' and inserted_at >= fromUnixTimestamp64Milli({insertedFromMs:Int64})
            group by billing_id`,
    query_params: { insertedFromMs },
    format: 'JSONCompactEachRow',
  });
  for await (const chunk of answer.stream<
    [id: string, used: string, held: string, isWhole: number, workspaceId: string]
  >()) {
    signal.throwIfAborted();
    const rows = chunk.map((row) => row.json());
    const amounts = new Map(
      rows.map(([id, used, held]): [string, Amounts] => [id, { used: Number(used), held: Number(held) }]),
    );
    const voids = await readLateVoids(stores.sql, [...amounts.keys()]);
    // What has expired is a sum of all its lines, and what was granted of late voids. And a late event is not the last one: newer events
    // may have been inserted before the time that this run looks at.
    const whole = rows.filter(([id, , , isWhole]) => isWhole === 1 || voids.has(id));
    const records = whole.map(([id, , , , workspaceId]) => ({ id, workspaceId }));
    for (const [id, { lastMicros, lastHeldMicros, classes }] of await readBooked(stores, records)) {
      const expired = sum([...classes.values()].map(({ expiredMicros }) => expiredMicros));
      const late = sum((voids.get(id) ?? []).map(({ number }) => takenOf(classes, number)));
      if (lastMicros !== undefined) amounts.set(id, { used: lastMicros, held: lastHeldMicros, expired, late });
    }
    await store(stores.sql, amounts);
  }
}

async function store(sql: Query, amounts: Map<string, Amounts>): Promise<void> {
  const all = [...amounts.values()];
  await sql`
    update billing_records b
    set used_micros = last.used, held_micros = last.held, expired_micros = coalesce(last.expired, b.expired_micros),
        total_of_account_micros = begun.total
    from unnest(${[...amounts.keys()]}::text[], ${all.map(({ used }) => used)}::bigint[], ${all.map(({ held }) => held)}::bigint[],
                ${all.map(({ expired }) => expired ?? null)}::bigint[], ${all.map(({ late }) => late ?? 0)}::bigint[])
      as last (id, used, held, expired, late)
    cross join lateral (
      -- What began since somebody counted it.
      select r.total_micros + r.granted_micros + coalesce(sum(g.amount_micros), 0) + last.late as total
      from billing_records r
      left join grants g on g.billing_id = r.id and g.before_micros is null and g.voided_at is null
        and g.begins_at <= extract(epoch from now()) * 1000
      where r.id = last.id group by r.id) begun
    where b.id = last.id and b.id = any(${eachOf(sql, [...amounts.keys()])})
      and (b.used_micros, b.held_micros, b.expired_micros, b.total_of_account_micros) <>
      (last.used, last.held, coalesce(last.expired, b.expired_micros), begun.total)`;
}
