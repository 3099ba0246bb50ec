import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventColumns, eventRow } from '../../../shared/events/event.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { newId } from '../../../shared/values/ids.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';
import { noteBehind } from './note-behind.ts';

const RECORDS = 1_500;
/** As many as are noted at a time. */
const PAGE = 1_000;
const SHARDS = [7, 8];
const never = new AbortController().signal;

const world = await makeWorld([]);
const { books } = world;
// It would look for records itself, and settle them.
await world.api.stop();

test('whoever goes on after one that died notes the rest; a shard that was reopened is looked through from its start', async () => {
  const { sql } = world;
  const ids = await recordsWithEvents();
  await reopened();
  await note(signalAfter(PAGE));
  assert.equal(await noted(), ids.slice(0, PAGE));

  // All of these are settled.
  await sql`delete from unsettled_records`;
  await note(never);
  assert.equal(await noted(), ids.slice(PAGE));
  assert.is((await sql`select from shards where behind_since is not null`).count, 0);

  await sql`delete from unsettled_records`;
  await reopened();
  await note(signalAfter(PAGE));
  await reopened();
  await note(never);
  assert.equal(await noted(), ids);
});

async function note(signal: AbortSignal): Promise<void> {
  await noteBehind({ ...world, log: makeLogger('test', 'silent') }, SHARDS, signal);
}

/** A signal that is aborted once so many records are noted. */
function signalAfter(records: number): AbortSignal {
  let pages = 0;
  return {
    ...never,
    get aborted() {
      return pages++ * PAGE >= records;
    },
  };
}

async function noted(): Promise<string[]> {
  const rows = await world.sql<
    { id: string }[]
  >`select billing_id as id from unsettled_records order by billing_id collate "C"`;
  return rows.map(({ id }) => id);
}

/** Reopens the shards: they may lack what the books have of their last epoch. */
async function reopened(): Promise<void> {
  await world.sql`
    update shards set epoch = epoch + 1, behind_since = 0, behind_from_epoch = 1 where shard = any(${SHARDS})`;
}

async function recordsWithEvents(): Promise<string[]> {
  const { sql, team } = world;
  const workspaceId = await world.newWorkspace(team.id);
  const ids = Array.from({ length: RECORDS }, () => newId('bill')).toSorted();
  await sql`
    insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
    select id, ${team.id}, ${workspaceId}, id, (${SHARDS}::int[])[1 + n % 2], 0, false
    from unnest(${ids}::text[]) with ordinality as made (id, n)`;
  const events = ids.map((billingId) => testEvent({ billingId, workspaceId, epoch: 1, sequence: 1 }));
  await books.client.insert({
    table: 'usage_events',
    columns: eventColumns,
    values: events.map(eventRow),
    format: 'JSONCompactEachRow',
  });
  return ids;
}
