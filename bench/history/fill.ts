import { rollUp } from '../../apps/consumer/jobs/rollup.ts';
import { insertPart, partParameters } from './plan.ts';
import type { HistoryWorld } from './world.ts';

const ROWS_AT_ONCE = 1_000_000;
// One block of rows is one part of a table, and takes about 300 MB while it is made.
const settings = { max_threads: 2, max_insert_threads: '1', min_insert_block_size_rows: String(ROWS_AT_ONCE) };

/** Inserts the record's events into the books, block by block, and marks their days as the consumer would. */
export async function insertHistory(
  { world, setup, plan, big, workspaceId }: HistoryWorld,
  told: (done: number) => void,
): Promise<void> {
  for (const part of plan.parts(ROWS_AT_ONCE)) {
    const query_params = partParameters(plan, part, { workspaceId, billingId: big.id, keyId: big.keyId });
    await setup.command({ query: insertPart, query_params, clickhouse_settings: settings });
    told(part.first + part.count);
  }
  await markDays({ world, big, workspaceId }, plan.days);
  // The epochs of these events have been: no shard may begin one of them again.
  await world.sql`update shards set epoch = greatest(epoch, ${plan.epochs})`;
}

/** Sums up the days that are over, as the consumer's job does. */
export async function sumUpDays({ world, books }: HistoryWorld): Promise<void> {
  await rollUp({ sql: world.sql, books }, Date.now(), new AbortController().signal);
}

/** Marks days of the record as changed. */
export async function markDays(
  { world, big, workspaceId }: Pick<HistoryWorld, 'world' | 'big' | 'workspaceId'>,
  days: string[],
): Promise<void> {
  await world.sql`
    insert into usage_marks (workspace_id, billing_id, day) select ${workspaceId}, ${big.id}, unnest(${days}::date[])
    on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
}

/** Deletes one event of the record from the books. */
export async function deleteEvent(
  { world, setup, plan, big, workspaceId }: HistoryWorld,
  index: number,
): Promise<void> {
  const { epoch, sequence, day } = plan.place(index);
  const month = day.slice(0, 7).replace('-', '');
  await setup.command({
    query: `delete from usage_events in partition ${month}
            where workspace_id = {workspaceId:String} and billing_id = {id:String} and day = {day:Date} and epoch = {epoch:UInt32} and seq = {sequence:UInt64}`,
    query_params: { workspaceId, id: big.id, day, epoch, sequence },
  });
  await markDays({ world, big, workspaceId }, [day]);
}

/** Inserts one event of the record again. */
export async function insertEvent(
  { world, setup, plan, big, workspaceId }: HistoryWorld,
  index: number,
): Promise<void> {
  const part = [...plan.parts(ROWS_AT_ONCE)].find(({ first, count }) => first <= index && index < first + count)!;
  const query_params = partParameters(
    plan,
    { ...part, first: index, count: 1 },
    { workspaceId, billingId: big.id, keyId: big.keyId },
  );
  await setup.command({ query: insertPart, query_params });
  await markDays({ world, big, workspaceId }, [plan.place(index).day]);
}
