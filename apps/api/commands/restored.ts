import '../../../shared/runtime/require-node.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { billingKey, billingRefsAfter, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { markUnsummedDays } from '../../../shared/books/sums/marked-days.ts';
import { mapLimited } from '../../../shared/runtime/map-limited.ts';
import { versionOf } from '../../../shared/stores/records.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { readRows } from '../../../shared/stores/clickhouse.ts';
import { readShards } from '../../../shared/stores/fence.ts';
import { distrustMeters } from '../../../shared/stores/meters.ts';
import type { Sql, Transaction } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { forgetHead } from '../audit/chain.ts';
import { endUncopied, refuseChanged, type Newer } from '../resources/revocations/after-restore.ts';
import { batchesById } from '../sync/batches.ts';
import type { Entry } from '../sync/change.ts';
import { loadShard } from '../sync/sync.ts';
import { rebuild } from './rebuild.ts';
import { runTool, type ToolStores } from './tool.ts';

// Run this after Postgres was restored from a backup that is older than Redis: `npm run restored`. Of a change after the
// backup, Redis knows only that the record has a newer version. To be safe, everything that may have been taken back by
// such a change is refused until somebody has looked at it. It needs the rights of the schemas' owner in Postgres.
// 1. Compare every record of Postgres with Redis.
// 2. End all signing keys and link tokens, page by page: of these Redis knows nothing.
// 3. Mark the days that the books have not summed up: the marks that were made after the backup are gone.
// 4. In one transaction: disable, revoke or delete what was changed after the backup, disable what sends usage, and begin a new
//    generation of versions above all earlier ones.
// 5. Write Redis again. After a crash before this step, run the command again.

type RecordEntry = Entry & { value: string };

// The versions of a generation stay below those of the next, and those of a thousand generations below 2^53.
const GENERATION = 1_000_000_000_000;
const ASK_WITHIN_MS = 5_000;
const ASKED_AT_ONCE = 64;
const LAST_IN_BOOKS = "select billing_id, max(number) from usage_events where kind = 'adjustment' group by billing_id";

await runTool('restored', async (stores) => {
  const { sql, redis } = stores;
  await requireOwner(sql);
  const newer = await findNewer(sql, redis);
  // Shards that Redis closed, in a restart, stay closed until this command has run.
  const shards = await readShards(redis, ASK_WITHIN_MS);
  if (shards.size < ALL_SHARDS.length) throw new Error('not every Redis server answers; try again when they do');
  const lastChange = Math.max(0, ...[...shards.values()].map(({ change }) => change));
  const lastEpoch = Math.max(0, ...[...shards.values()].map(({ epoch }) => epoch));
  const adjustments = await lastAdjustments(stores);
  const ended = { signingKeys: 0, linkTokens: 0 };
  await endUncopied(sql, ({ teamId, signingKeys, linkTokens }) => {
    ended.signingKeys += signingKeys;
    ended.linkTokens += linkTokens;
    console.log(`ended: ${signingKeys} signing keys and ${linkTokens} link tokens of ${teamId}`);
  });
  const days = await markUnsummedDays(stores);
  const told = await sql.begin(async (tx) => {
    const lines = await refuseChanged(tx, newer);
    await beginGeneration(tx, { lastChange, lastEpoch, adjustments });
    const meters = await distrustMeters(tx);
    return [...lines, ...meters.map((id) => `${id} is disabled: see what it got before you enable it`)];
  });
  for (const line of told) console.log(`changed after the backup: ${line}`);
  console.log('secrets of API keys and access tokens that were made after the backup are invalid from now on');
  console.log(`days of billing records that are to be summed up: ${days}`);
  console.log(
    `ended in all: ${ended.signingKeys} signing keys and ${ended.linkTokens} link tokens; ` +
      'every JWT and link token made until now is invalid, make new ones',
  );
  // The chain of the audit log goes on from the older Postgres.
  await forgetHead(redis);
  await rebuild(stores);
  return 0;
});

// Step 2 ends for good what it ends: the rights that later steps need must be there before.
async function requireOwner(sql: Sql): Promise<void> {
  const [{ isOwner }] = await sql<[{ isOwner: boolean }]>`
    select pg_has_role(relowner, 'usage') as is_owner from pg_class where oid = 'public.teams'::regclass`;
  if (!isOwner) throw new Error("it needs the rights of the schemas' owner: name that user in DATABASE_URL");
}

/**
 * Records of which Redis has a newer version than Postgres, or which have left it: their tombstone stays for a while only.
 * One entry for each, however many shards have a copy.
 */
async function findNewer(sql: Sql, redis: ShardedRedis): Promise<Newer[]> {
  const newer = new Map<string, Newer>();
  for (const shard of ALL_SHARDS) {
    for await (const loaded of loadShard(sql, shard)) {
      const entries = loaded.filter(isRecord);
      const { client } = redis.node(shard);
      const values = await Promise.all(
        entries.map(({ key, field }) => (field === '' ? client.get(key) : client.hget(key, field))),
      );
      for (const [i, entry] of entries.entries()) {
        const { kind, id } = entry;
        const value = values[i] ?? '';
        if (value === '' ? kind !== 'billing' : versionOf(value) > versionOf(entry.value))
          newer.set(`${kind} ${id}`, { kind, id, inRedis: value, ofBackup: entry.value });
      }
    }
  }
  return [...newer.values()];
}

// A list of addresses changes with the record that names it, and has its version.
function isRecord(entry: Entry): entry is RecordEntry {
  return typeof entry.value === 'string';
}

type Since = { lastChange: number; lastEpoch: number; adjustments: Map<string, number> };

async function beginGeneration(tx: Transaction, { lastChange, lastEpoch, adjustments }: Since): Promise<void> {
  for (const name of ['access_tokens', 'workspaces', 'scopes', 'api_keys', 'billing_records'])
    await tx`update ${tx(name)} set version = (version / ${GENERATION}::bigint + 1) * ${GENERATION}::bigint + version % ${GENERATION}::bigint`;
  await tx`select setval('changes_id_seq', greatest(last_value, ${lastChange})) from changes_id_seq`;
  // The api compares the last change that Postgres made with those of Redis: one that changes nothing.
  await tx`insert into changes (kind, entity_id, applied_at) values ('workspace', 'restored', now())`;
  // The transactions of the backup's time may come again under the same ids.
  await tx`
    insert into job_watermarks (job, at) values ('restored', ${systemClock.now()})
    on conflict (job) do update set at = greatest(job_watermarks.at + 1, excluded.at)`;
  await tx`update shards set epoch = greatest(epoch, ${lastEpoch})`;
  await tx`
    update billing_records set last_adjustment = greatest(last_adjustment, booked.number)
    from unnest(${[...adjustments.keys()]}::text[], ${[...adjustments.values()]}::int[]) as booked (id, number)
    where billing_records.id = booked.id`;
}

/** The number of each record's last adjustment, in Redis or in the books: its event may still be on its way from one to the other. */
async function lastAdjustments(stores: ToolStores): Promise<Map<string, number>> {
  const last = new Map(await readRows<[billingId: string, number: number]>(stores.books, LAST_IN_BOOKS));
  const records = batchesById<BillingRef>((after, most) => billingRefsAfter(stores.sql, 'all', after, most));
  for await (const refs of records) {
    const inRedis = await mapLimited(refs, ASKED_AT_ONCE, (ref) =>
      stores.redis.node(ref.shard).client.hget(billingKey(ref), 'a'),
    );
    for (const [i, { id }] of refs.entries()) {
      const number = Math.max(last.get(id) ?? 0, Number(inRedis[i] ?? 0));
      if (number > 0) last.set(id, number);
    }
  }
  return last;
}
