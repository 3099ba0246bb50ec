import { setTimeout as sleep } from 'node:timers/promises';
import { meterShard } from '../../shared/stores/keyspace.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import type { Customers } from '../../tests/helpers/customers.ts';

/** What the keys of other records saw: how late their usage was in the books, and for how long one was not VALID, in ms. */
export type Seen = { lateMs: number; downMs: number };

export type Others = Awaited<ReturnType<typeof startOthers>>;

type Other = {
  key: string;
  billingId: string;
  validAt: number;
  /** When calls were sent whose events the books did not show yet. */
  pending: number[];
};

const OTHERS = 8;
const CALL_EVERY_MS = 200;
const LOOK_EVERY_MS = 250;
const COST = '0.001';

/**
 * Verifies keys of other records all along, one of them in the shard that is given, and watches how late their usage is in
 * the books.
 */
export async function startOthers(customers: Customers, books: Books, workspaceId: string, shard: number) {
  const others: Other[] = [];
  for (let i = 0; i < OTHERS; i++) {
    const wanted = (shard + i * (ALL_SHARDS.length / OTHERS)) % ALL_SHARDS.length;
    const externalMeterId = nameInShard(workspaceId, wanted);
    await customers.newMeter({ externalMeterId, totalCredits: '1000000' });
    const { key } = await customers.newKey({ externalMeterId });
    const { id } = await customers.billing(externalMeterId);
    others.push({ key, billingId: id, validAt: Date.now(), pending: [] });
  }
  const seen: Seen = { lateMs: 0, downMs: 0 };
  let stopped = false;
  const calls = others.map(async (other) => {
    while (!stopped) {
      const sentAt = Date.now();
      if (await isValid(customers, other.key)) {
        other.pending.push(sentAt);
        other.validAt = Date.now();
      }
      await sleep(CALL_EVERY_MS);
    }
  });
  const looks = watch(others, books, seen, () => stopped);

  return {
    /** Counts from now on. */
    reset: () => void Object.assign(seen, { lateMs: 0, downMs: 0 }),
    seen: () => ({ ...seen }),
    /** Redis lost what was not in the books yet. */
    lost() {
      for (const other of others) other.pending = [];
    },
    async stop() {
      stopped = true;
      await Promise.all([...calls, looks]);
    },
  };
}

async function watch(others: Other[], books: Books, seen: Seen, stopped: () => boolean): Promise<void> {
  while (!stopped()) {
    const askedAt = Date.now();
    const newest = await newestInBooks(others, books).catch(() => new Map<string, number>());
    for (const other of others) {
      const shownUpTo = newest.get(other.billingId) ?? 0;
      other.pending = other.pending.filter((sentAt) => sentAt > shownUpTo);
      const oldest = other.pending[0] ?? askedAt;
      seen.lateMs = Math.max(seen.lateMs, askedAt - oldest);
      seen.downMs = Math.max(seen.downMs, askedAt - other.validAt);
    }
    await sleep(LOOK_EVERY_MS);
  }
}

/** The time of the newest event of each record, by Redis's clock, which is this machine's. */
async function newestInBooks(others: Other[], books: Books): Promise<Map<string, number>> {
  const answer = await books.client.query({
    query: `select billing_id, toUnixTimestamp64Milli(max(time)) from usage_events
            where billing_id in {ids:Array(String)} group by billing_id`,
    query_params: { ids: others.map(({ billingId }) => billingId) },
    format: 'JSONCompactEachRow',
  });
  return new Map((await answer.json<[id: string, at: string]>()).map(([id, at]) => [id, Number(at)]));
}

async function isValid(customers: Customers, key: string): Promise<boolean> {
  try {
    return (await customers.verify({ key, billing: { usage: COST } })).body.status === 'VALID';
  } catch {
    return false;
  }
}

function nameInShard(workspaceId: string, shard: number): string {
  for (let i = 0; ; i++) if (meterShard(workspaceId, `other-${i}`) === shard) return `other-${i}`;
}
