import type { Limit } from '../../contract/limits.ts';
import { ApiError } from '../../contract/errors.ts';
import { mapLimited } from '../../runtime/map-limited.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { END } from '../../stores/fields.ts';
import { keyspace } from '../../stores/keyspace.ts';
import { amountOf, headOf, knownLimits, packSettings, slidingMs, type KnownLimit } from '../../stores/known-limits.ts';
import type { LimitPlace } from '../../stores/limits.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import type { ShardedRedis } from '../../stores/redis.ts';
import { withTimeout } from '../../runtime/timeout.ts';
import { chunks } from '../../values/chunks.ts';
import type { Balance, FailedRecord } from '../balances.ts';
import { billingKey, type BillingRef } from '../billing-refs.ts';
import { byHalves } from '../by-halves.ts';
import { inGroups } from '../sums/day-sums.ts';
import { readLateKeys, readWindowedSums } from '../sums/windowed-sums.ts';

// What limits over windows had counted, and Redis has lost. docs/accounts-design.md, "Limits".

type Stores = { sql: Query; redis: ShardedRedis; books: Books };
/** Permission to write the counters of a shard. */
type Grant = (shard: number) => { fence: string; epoch: number };

/** A record or a key, with its limits as they are now and what they were raised by before. */
type Owner = { billing: BillingRef; keyId: string; limits: KnownLimit[]; marks: Mark[] };
/** Since when a limit was raised by how much, and when that was done; the text is as it stands in Redis. */
type Mark = { text: string; sinceMs: number; micros: number; atMs: number };

const KEYS_AT_ONCE = 1_000;
// A script of so many takes Redis about 100 µs.
const OWNERS_PER_SCRIPT = 16;
const SCRIPTS_AT_ONCE = 8;
const ATTEMPTS = 3;
const WITHIN_MS = 2_000;
// No window is longer, but a year.
const LONGEST_MS = 32 * 86_400_000;
const YEAR_MS = 367 * 86_400_000;

/**
 * Raises what limits of some records and their keys have counted in the windows under way, by usage that the books have and these
 * balances lack. Each limit keeps what it was raised by, so that this can run again. Gives the records that failed alone; throws
 * where a server fails, which `requireBooks` does where the books can't be read at all.
 */
export async function raiseLimits(
  stores: Stores,
  behind: Behind[],
  grant: Grant,
  requireBooks: () => Promise<void>,
): Promise<FailedRecord[]> {
  const failed: FailedRecord[] = [];
  const raise = async (limited: Limited[]) => void failed.push(...(await raiseSome(stores, limited, grant)));
  for (const some of inGroups(behind, ({ balance }) => balance.sequences.size + 1)) {
    const limited = await recordsWithLimits(stores.sql, some);
    const alone = await byHalves(limited, raise, requireBooks);
    failed.push(...alone.map(({ item, error }) => ({ billing: item.balance.billing, error })));
  }
  return failed;
}

/** A balance that lacks so many events. */
type Behind = { balance: Balance; events: number };
type Limited = Behind & { limits: Limit[]; hasKeys: boolean; hasYears: boolean };

async function raiseSome(stores: Stores, limited: Limited[], grant: Grant): Promise<FailedRecord[]> {
  const nowMs = await stores.redis.node(limited[0]!.balance.billing.shard).now();
  const balances = new Map(limited.map(({ balance }) => [balance.billing.id, balance]));
  const failed: FailedRecord[] = [];
  const raise = async (owners: Owner[]) => {
    failed.push(...(await raiseOwners(stores, owners, balances, { nowMs, grant })));
  };
  await raise(
    limited
      .filter(({ limits }) => limits.length > 0)
      .map(({ balance: { billing }, limits }) => ownerOf({ billing, keyId: '', on: 'billing', limits }, nowMs)),
  );
  const withKeys = limited.filter(({ hasKeys }) => hasKeys).map(({ balance }) => balance);
  const longestMs = limited.some(({ hasYears }) => hasYears) ? YEAR_MS : LONGEST_MS;
  const page = { sinceMs: nowMs - longestMs, limit: KEYS_AT_ONCE };
  let keyIds = withKeys.length === 0 ? [] : await readLateKeys(stores.books, withKeys, { ...page, after: '' });
  while (keyIds.length > 0) {
    const keys = await keysWithLimits(stores.sql, keyIds, balances);
    await raise(keys.map((key) => ownerOf(key, nowMs)));
    const after = keyIds.at(-1)!;
    keyIds = keyIds.length < KEYS_AT_ONCE ? [] : await readLateKeys(stores.books, withKeys, { ...page, after });
  }
  const stopped = new Set(failed.map(({ billing }) => billing.id));
  await mapLimited(limited, SCRIPTS_AT_ONCE, async ({ balance: { billing }, events }) => {
    if (!stopped.has(billing.id)) await callRaise(stores.redis, billing, grant, [events]);
  });
  return failed;
}

type Read = { billing: BillingRef; keyId: string; on: LimitPlace; limits: Limit[] };

function ownerOf({ billing, keyId, on, limits }: Read, nowMs: number): Owner {
  return { billing, keyId, limits: knownLimits(on, limits, nowMs), marks: [] };
}

/** Those of some records that limits count the usage of, on the record or on keys of it. */
async function recordsWithLimits(sql: Query, behind: Behind[]): Promise<Limited[]> {
  const byId = new Map(behind.map((one) => [one.balance.billing.id, one]));
  const rows = await sql<{ id: string; limits: Limit[] | null; hasKeys: boolean; hasYears: boolean }[]>`
    select * from (
      select b.id, b.limits, exists (
        select from api_keys k
        where k.workspace_id = b.workspace_id and k.external_meter_id = b.external_meter_id and k.deleted_at is null
          and (k.limits is not null or w.default_limits is not null)) as has_keys, exists (
        select from api_keys k cross join json_array_elements(coalesce(k.limits, w.default_limits)) as one
        where k.workspace_id = b.workspace_id and k.external_meter_id = b.external_meter_id and k.deleted_at is null
          and one ->> 'per' = 'year') as has_years
      from billing_records b join workspaces w on w.id = b.workspace_id and w.deleted_at is null
      where b.id = any(${eachOf(sql, [...byId.keys()])})
    ) as found
    where has_keys or limits is not null`;
  return rows.map(({ id, limits, ...has }) => ({ ...byId.get(id)!, limits: limits ?? [], ...has }));
}

async function keysWithLimits(sql: Query, ids: string[], balances: Map<string, Balance>): Promise<Read[]> {
  const rows = await sql<{ id: string; billingId: string; limits: Limit[]; place: LimitPlace }[]>`
    select k.id, b.id as billing_id, coalesce(k.limits, w.default_limits) as limits,
           case when k.limits is null then 'workspace' else 'key' end as place
    from api_keys k join workspaces w on w.id = k.workspace_id
      join billing_records b on b.workspace_id = k.workspace_id and b.external_meter_id = k.external_meter_id
    where k.id = any(${eachOf(sql, ids)}) and k.deleted_at is null and coalesce(k.limits, w.default_limits) is not null`;
  return rows.flatMap(({ id, billingId, limits, place }) => {
    const balance = balances.get(billingId);
    return balance && limits.length > 0 ? [{ billing: balance.billing, keyId: id, on: place, limits }] : [];
  });
}

type Times = { nowMs: number; grant: Grant };

/** Raises the limits of some owners: either of records, or of keys. */
async function raiseOwners(
  stores: Stores,
  owners: Owner[],
  balances: Map<string, Balance>,
  { nowMs, grant }: Times,
): Promise<FailedRecord[]> {
  const failed: FailedRecord[] = [];
  let rest = owners;
  for (let attempt = 0; attempt < ATTEMPTS && rest.length > 0; attempt++) {
    await readMarks(stores.redis, rest);
    const asked = await sumLate(stores.books, rest, balances, nowMs);
    const pages = [...Map.groupBy(asked, ({ owner }) => owner.billing.id).values()].flatMap((ofRecord) =>
      chunks(ofRecord, OWNERS_PER_SCRIPT),
    );
    const again = await mapLimited(pages, SCRIPTS_AT_ONCE, async (page) => {
      const outcome = await raisePage(stores.redis, page, grant);
      if (outcome instanceof Error) failed.push({ billing: page[0]!.owner.billing, error: outcome });
      return outcome === 'AGAIN' ? page.map(({ owner }) => owner) : [];
    });
    rest = again.flat();
  }
  const ofRecords = new Map(rest.map(({ billing }) => [billing.id, billing]));
  const error = new Error('what its limits counted changed again and again');
  return [...failed, ...[...ofRecords.values()].map((billing) => ({ billing, error }))];
}

/** An owner, and for each of its limits since when it was lost how much. */
type Asked = { owner: Owner; late: { sinceMs: number; micros: number }[] };

async function sumLate(books: Books, owners: Owner[], balances: Map<string, Balance>, nowMs: number): Promise<Asked[]> {
  const starts = owners.map(({ limits, marks }) => limits.map((limit, i) => sinceOf(limit, marks[i]!, nowMs)));
  const lateFor = [...new Set(owners.map(({ billing }) => balances.get(billing.id)!))];
  const areKeys = owners[0]!.keyId !== '';
  const sums = await readWindowedSums(books, {
    workspaceIds: [...new Set(lateFor.map(({ billing }) => billing.workspaceId))],
    billingIds: lateFor.map(({ billing }) => billing.id),
    ...(areKeys && { keyIds: owners.map(({ keyId }) => keyId) }),
    lateFor,
    sinceMs: starts.flat(),
  });
  const asked = owners.map((owner, place): Asked => ({
    owner,
    late: owner.limits.map((limit, i) => {
      const sinceMs = starts[place]![i]!;
      return { sinceMs, micros: amountOf(limit, sums(owner.keyId || owner.billing.id, sinceMs, limit.usageName)) };
    }),
  }));
  return asked.filter(({ owner: { marks }, late }) =>
    late.some(({ sinceMs, micros }, i) => micros > (marks[i]!.sinceMs === sinceMs ? marks[i]!.micros : 0)),
  );
}

/**
 * Since when usage is summed: in a window of the calendar since it began. In one that slides since a window before it was raised
 * first, so that all sums are of the same usage; what it was raised by a window ago has fallen.
 */
function sinceOf(limit: KnownLimit, mark: Mark, nowMs: number): number {
  if (limit.span) return limit.span.startMs;
  const first = nowMs - slidingMs(limit)!;
  return mark.atMs >= first ? mark.sinceMs : first;
}

async function readMarks(redis: ShardedRedis, owners: Owner[]): Promise<void> {
  for (const [node, ofNode] of Map.groupBy(owners, ({ billing }) => redis.node(billing.shard))) {
    const pipeline = node.client.pipeline();
    for (const { billing, keyId, limits } of ofNode)
      pipeline.hmget(marksKey(billing), ...limits.map(({ counter }) => `${keyId}:${counter}`));
    const answers = await withTimeout(redis.clock, WITHIN_MS, pipeline.exec()).catch((cause: unknown) => {
      throw new ApiError('redis_unavailable', { cause });
    });
    for (const [i, owner] of ofNode.entries()) {
      const [error, texts] = answers?.[i] ?? [new Error('no answer')];
      if (error) throw new ApiError('redis_unavailable', { cause: error });
      owner.marks = (texts as (string | null)[]).map(readMark);
    }
  }
}

function readMark(text: string | null): Mark {
  const [sinceMs = 0, micros = 0, atMs = 0] = text === null ? [] : text.split(' ').map(Number);
  return { text: text ?? '', sinceMs, micros, atMs };
}

async function raisePage(redis: ShardedRedis, page: Asked[], grant: Grant): Promise<Outcome> {
  const args = page.flatMap(({ owner: { keyId, limits, marks }, late }) => {
    const asked = limits.map(
      ({ name }, i) => [name, late[i]!.sinceMs, late[i]!.micros, marks[i]!.text].join(END) + END,
    );
    return [keyId, headOf(limits), packSettings(limits), asked.join('')];
  });
  return callRaise(redis, page[0]!.owner.billing, grant, ['', ...args]);
}

/** An error is that of a record that failed alone. */
type Outcome = 'OK' | 'AGAIN' | Error;

/** Throws where the server fails or the shard is closed. */
async function callRaise(
  redis: ShardedRedis,
  billing: BillingRef,
  grant: Grant,
  args: (string | number)[],
): Promise<Outcome> {
  const { shard } = billing;
  const node = redis.node(shard);
  const { fence, epoch } = grant(shard);
  const keys = [keyspace.meta(shard), billingKey(billing), keyspace.outbox(shard), marksKey(billing)];
  const all = [fence, node.notAfter(WITHIN_MS), epoch, ...args];
  const [status, , why] = await node.script('raise', keys, all, WITHIN_MS);
  if (status === 'OK' || status === 'AGAIN') return status;
  if (status === 'UNSETTLED') return new Error(why);
  throw new ApiError('redis_unavailable', { cause: new Error(`the raise script answered ${status}`) });
}

function marksKey({ shard, workspaceId, externalMeterId }: BillingRef): string {
  return keyspace.raisedLimits(shard, workspaceId, externalMeterId);
}
