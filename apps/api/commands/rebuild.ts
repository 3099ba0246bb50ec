import '../../../shared/runtime/require-node.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { StalePostgresWatch } from '../sync/sweeper.ts';
import { reopen } from '../reopen/reopen.ts';
import { progressLine, runTool, type ToolStores } from './tool.ts';

// Writes everything in Redis again, from Postgres and the books: `npm run rebuild`. Meanwhile verify answers 503 for each
// shard until that shard is whole.

const neverStale: StalePostgresWatch = { note: () => {}, refuse: () => {} };

/** Closes all shards and fills them again; shows its progress. */
export async function rebuild(stores: ToolStores): Promise<void> {
  const started = systemClock.monotonic();
  const total = await recordsOf(stores.sql);
  const progress = progressLine();
  let done = 0;
  const onProgress = (records: number) => {
    done += records;
    const share = Math.min(99, Math.floor((100 * done) / Math.max(1, total)));
    progress.show(() => `${done.toLocaleString('en')} records written, about ${share} %, ${seconds(started)}`);
  };
  await Promise.all(
    [...stores.redis.byNode()].map(([node, shards]) =>
      reopen({ ...stores, stalePostgres: neverStale, random: Math.random }, node, shards, {
        rebuild: true,
        onProgress,
      }),
    ),
  );
  progress.end();
  console.log(`Redis is rebuilt: ${done.toLocaleString('en')} records in ${seconds(started)}`);
}

/** About how many records Redis holds; workspaces and scopes have a copy in each of 64 shards. */
async function recordsOf(sql: Sql): Promise<number> {
  const [row] = await sql<[{ total: number }]>`
    select (select count(*) from key_texts where replaced_at is null)
           + (select count(*) from access_tokens where revoked_at is null) + 2 * (select count(*) from billing_records)
           + 64 * ((select count(*) from workspaces where deleted_at is null)
                   + (select count(*) from scopes where deleted_at is null)) as total`;
  return row.total;
}

function seconds(since: number): string {
  return `${((systemClock.monotonic() - since) / 1000).toFixed(1)} s`;
}

if (import.meta.main)
  await runTool('rebuild', async (stores) => {
    await rebuild(stores);
    return 0;
  });
