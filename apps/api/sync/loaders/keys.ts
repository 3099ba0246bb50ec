import type { Limit } from '../../../../shared/contract/limits.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { withLimits } from '../../../../shared/stores/limits.ts';
import { flagCharacter, packRecord, POINTER, tombstone } from '../../../../shared/stores/records.ts';
import { inBatches } from '../batches.ts';
import { SECRET_TOMBSTONE_SECONDS, type Entry, type Selection } from '../change.ts';
import { addressListName, packStoredList } from '../../../../shared/stores/address-lists.ts';
import { packAddressList } from '../../../../shared/values/address-list.ts';

/**
 * Loads API keys: an entry for each secret that works, of which a key has more than one while a rotation's grace lasts. A
 * secret that was replaced is written once more, by the change that replaced it, and again by each replay of that change: a
 * Redis that was down since may still hold it as valid. No other change of its key writes it.
 */
export async function* loadKeys(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const which =
    'ids' in selection ? sql`k.id = any(${selection.ids})` : sql`k.shard = ${selection.shard} and w.deleted_at is null`;
  for await (const keys of keyBatches(sql, secrets(sql, selection), which)) {
    const lists = new Map<string, OwnList>();
    for (const key of keys) if (!lists.has(key.id)) lists.set(key.id, listOf(key));
    const records = keys.map((key) => entryOf(key, lists.get(key.id)!.name));
    // A key that was never changed has had no other list.
    const written = keys.filter(({ allowedIps, version }) => allowedIps?.length || version > 1);
    yield* withLists(selection, [...new Set(written.map(({ id }) => lists.get(id)!))], records);
    // Last: the pointer of a key that was given a meter takes the place of its record, which must be found elsewhere by then.
    const pointers = 'ids' in selection ? keys.flatMap(pointersOf) : [];
    if (pointers.length > 0) yield pointers;
  }
}

/** Loads the pointers that an empty shard needs: of imported secrets whose hash is in it, and whose keys are not. */
export async function* loadPointers(sql: Query, { shard }: { shard: number }): AsyncGenerator<Entry[]> {
  const which = sql`t.pointer_shard = ${shard} and w.deleted_at is null`;
  for await (const keys of keyBatches(sql, secrets(sql, { shard }), which)) yield keys.flatMap(pointersOf);
}

/** Keys with each of some secrets, in the order of both. */
function keyBatches(sql: Query, ofSecrets: Fragment, which: Fragment) {
  return inBatches<KeyRow, { id: string; hash: string }>(
    { id: '', hash: '' },
    ({ id, hash }) => ({ id, hash }),
    (after, limit) => sql`
    select k.id, k.team_id, k.workspace_id, k.shard, k.enabled, k.deleted_at is not null as deleted, k.expires_at,
           k.customer_id, k.external_meter_id, k.metadata, k.rate_limit_per_second, k.limits, k.allowed_ips, k.version,
           t.hash, t.valid_until, t.pointer_shard,
           ceil((t.valid_until - extract(epoch from now()) * 1000) / 1000)::int as grace_seconds,
           t.replaced_at is not null as replaced, w.deleted_at is not null as workspace_deleted,
           g.refs, g.flags
    from api_keys k join workspaces w on w.id = k.workspace_id join ${ofSecrets} t on t.key_id = k.id
    cross join lateral (
      select coalesce(array_agg(s.ref order by g.position), '{}') as refs,
             coalesce(array_agg(g.flags order by g.position), '{}') as flags
      from key_grants g join scopes s on s.id = g.scope_id and s.deleted_at is null
      where g.key_id = k.id) g
    where ${which}
      -- With the last condition alone, Postgres would read all keys from the first on.
      and k.id >= ${after.id} and t.key_id >= ${after.id} and (k.id, t.hash) > (${after.id}, ${after.hash})
    order by k.id, t.hash limit ${limit}`,
  );
}

/** The secrets to write. Three parts, each with an index of its own: what a key has had before costs nothing. */
function secrets(sql: Query, selection: Selection) {
  const inGrace = sql`valid_until > (extract(epoch from now()) * 1000)::bigint`;
  const columns = sql`key_texts.key_id, key_texts.hash, key_texts.valid_until, key_texts.replaced_at, key_texts.pointer_shard`;
  if ('shard' in selection) return sql`(select ${columns} from key_texts where replaced_at is null or ${inGrace})`;
  const { ids, changeIds } = selection;
  return sql`(
    select ${columns} from key_texts where key_id = any(${ids}) and replaced_at is null
    union
    select ${columns} from key_texts where key_id = any(${ids}) and ${inGrace}
    union
    select ${columns} from changes c join key_texts on key_id = c.entity_id and replaced_at = c.created_at
    where c.kind = 'key' and (c.id = any(${changeIds}) or (c.applied_at is null and c.entity_id = any(${ids}))))`;
}

type Fragment = ReturnType<typeof secrets>;

type KeyRow = {
  id: string;
  teamId: string;
  workspaceId: string;
  shard: number;
  enabled: boolean;
  deleted: boolean;
  expiresAt: number | null;
  customerId: string | null;
  externalMeterId: string | null;
  metadata: Record<string, unknown> | null;
  rateLimitPerSecond: number | null;
  limits: Limit[] | null;
  allowedIps: string[] | null;
  version: number;
  hash: string;
  validUntil: number | null;
  graceSeconds: number | null;
  pointerShard: number | null;
  replaced: boolean;
  workspaceDeleted: boolean;
  refs: number[];
  flags: number[];
};

function listOf({ id, shard, version, deleted, workspaceDeleted, allowedIps }: KeyRow): OwnList {
  const addresses = deleted || workspaceDeleted ? [] : (allowedIps ?? []);
  return ownList({ kind: 'key', id, shard, version: workspaceDeleted ? version + 1 : version, addresses });
}

function entryOf(key: KeyRow, listName: string): Entry {
  return entryIn(key.shard, key, () => recordOf(key, listName));
}

/** What stands in the shard of an imported secret's hash, where its key is not. */
function pointersOf(key: KeyRow): Entry[] {
  const { pointerShard, teamId, shard } = key;
  if (pointerShard === null) return [];
  return [entryIn(pointerShard, key, (version) => packRecord('pointer', { version, state: POINTER, teamId, shard }))];
}

function entryIn(shard: number, key: KeyRow, pack: (version: number) => string): Entry {
  const graceSeconds = Math.max(0, key.graceSeconds ?? 0);
  const gone = key.workspaceDeleted || (key.replaced && graceSeconds === 0);
  // Deleting a workspace leaves its keys' rows as they are: one more, so that no late writer of the last change passes.
  const version = key.workspaceDeleted ? key.version + 1 : key.version;
  return {
    kind: 'key',
    id: key.id,
    shard,
    key: keyspace.keyText(shard, key.hash),
    field: '',
    value: gone ? tombstone(version) : pack(version),
    lifetimeSeconds: gone ? SECRET_TOMBSTONE_SECONDS : key.replaced ? graceSeconds + SECRET_TOMBSTONE_SECONDS : 0,
  };
}

function recordOf(key: KeyRow, listName: string): string {
  const state = key.deleted ? 'D' : key.enabled ? 'A' : 'X';
  return packRecord('key', {
    version: key.version,
    state,
    teamId: key.teamId,
    workspaceId: key.workspaceId,
    keyId: key.id,
    expiresAtMs: key.expiresAt ?? 0,
    validUntilMs: key.validUntil ?? 0,
    ratePerSecond: withLimits(key.rateLimitPerSecond ?? '', key.limits),
    addressList: key.allowedIps === null ? '' : listName || '*',
    meter: key.externalMeterId ?? '',
    workspaceFields: JSON.stringify(['d', ...key.refs.map((ref) => `s${ref}`)]),
    scopeFlags: key.flags.map(flagCharacter).join(''),
    answerPart: answerPart(key),
  });
}

// The part of a verification's answer that changes only with the key, as ready-made JSON.
function answerPart({ id, customerId, externalMeterId, expiresAt, metadata }: KeyRow): string {
  const part = {
    apiKeyId: id,
    ...(customerId !== null && { customerId }),
    ...(externalMeterId !== null && { externalMeterId }),
    ...(expiresAt !== null && { expiresAt }),
    ...(metadata !== null && { metadata }),
  };
  return JSON.stringify(part).slice(1, -1);
}

type Owner = Pick<Entry, 'kind' | 'id' | 'shard'> & { version: number; addresses: readonly string[] };

/** What a record says of its owner's list, and the list as an entry. */
export type OwnList = { name: string; entry: Entry };

/** Packs the list of addresses of a key or a workspace; an empty one has no name, and its entry is a tombstone. */
export function ownList({ kind, id, shard, version, addresses }: Owner): OwnList {
  const entry = { kind, id, shard, key: keyspace.addressList(shard, id), field: '' };
  if (addresses.length === 0)
    return { name: '', entry: { ...entry, value: tombstone(version), lifetimeSeconds: SECRET_TOMBSTONE_SECONDS } };
  const list = packAddressList(addresses);
  const value = packStoredList(version, list);
  return { name: addressListName(shard, id, list), entry: { ...entry, value, lifetimeSeconds: 0 } };
}

/**
 * Records with the lists of their owners, in the order in which they must be written: a record never names a list that is
 * still to come, nor one that is already gone.
 */
export function* withLists(selection: Selection, lists: readonly OwnList[], records: Entry[]): Generator<Entry[]> {
  const entries = lists.map(({ entry }) => entry);
  const inShard = (entry: Entry) => !('shard' in selection) || entry.shard === selection.shard;
  const kept = entries.filter((entry) => entry.lifetimeSeconds === 0 && inShard(entry));
  if (kept.length > 0) yield kept;
  yield records;
  // A shard that is written whole has no list to forget: it is empty, or was wiped.
  const gone = 'shard' in selection ? [] : entries.filter((entry) => entry.lifetimeSeconds > 0);
  if (gone.length > 0) yield gone;
}
