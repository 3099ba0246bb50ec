import '../../../shared/runtime/require-node.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { SHARDS } from '../../../shared/values/key-text.ts';
import type { StalePostgresWatch } from '../sync/sweeper.ts';
import { reopen } from '../reopen/reopen.ts';
import { progressLine, runTool, type ToolStores } from './tool.ts';

// Writes everything in Redis again, from Postgres and the books: `npm run rebuild`. Meanwhile verify answers 503 for each
// shard until that shard is whole.

const neverStale: StalePostgresWatch = { note: () => {}, refuse: () => {} };

/** Closes all shards and fills them again; shows its progress. */
export async function rebuild(stores: ToolStores): Promise<void> {
  const started = systemClock.monotonic();
  const progress = progressLine();
  let done = 0;
  const onOpened = (shards: number[]) => {
    done += shards.length;
    progress.show(() => `${done} of ${SHARDS} shards rebuilt, ${seconds(started)}`);
  };
  await Promise.all(
    [...stores.redis.byNode()].map(([node, shards]) =>
      reopen({ ...stores, stalePostgres: neverStale, onOpened }, node, shards, { rebuild: true }),
    ),
  );
  progress.end();
  console.log(`Redis is rebuilt: ${SHARDS} shards in ${seconds(started)}`);
}

function seconds(since: number): string {
  return `${((systemClock.monotonic() - since) / 1000).toFixed(1)} s`;
}

if (import.meta.main)
  await runTool('rebuild', async (stores) => {
    await rebuild(stores);
    return 0;
  });
