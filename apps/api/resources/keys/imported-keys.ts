import { Type, type Static } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { requireFuture } from '../../../../shared/contract/schemas.ts';
import { requirePermission } from '../../../../shared/auth/access-token.ts';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { checkLimits } from '../../../../shared/contract/limits.ts';
import { object, flag } from '../../../../shared/contract/schema-kinds.ts';
import { bodyValidator } from '../../../../shared/contract/validate.ts';
import type { Query, Transaction } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { importedTextFields, readImportedText, type ImportedText } from '../../../../shared/contract/imported-texts.ts';
import { set } from '../rows.ts';
import type { Recorded } from '../record.ts';
import { billImported, importedBilling } from './imported-billing.ts';
import { holdWorkspaces, insertKeys, placeKey, type NewKey, replaceGrants, settingsOf } from './new-keys.ts';
import { giveMeter, keys, newKeyFields, type KeyRow } from './keys.ts';

/** A key to import: its secret, and the fields of a creation. */
export const importedKey = object({
  ...importedTextFields,
  ...newKeyFields,
  billing: Type.Optional(importedBilling),
  restore: Type.Optional(
    flag(
      'whether a deleted key of this secret comes back, with the fields of this item that PATCH can change, and with its first meter if it has none',
      false,
    ),
  ),
});
type Fields = Static<typeof importedKey>;
const readFields = bodyValidator(importedKey);

/** What became of an item: a new key, the key that its secret was before, or why there is none. */
export type Imported = { result: 'imported' | 'existing' | 'restored'; keyId: string } | { error: ApiError };
/** A key that was made or came back, with each shard in which it stands, what it was before, and what became of its meter's record. */
export type MadeKey = {
  id: string;
  shards: number[];
  workspaceId: string;
  before?: KeyRow;
  billed?: Recorded[];
};
export type Importing = { sql: Query; redis: ShardedRedis; caller: Caller; requestId: string; now: number };

type Item = { fields: Fields; text: ImportedText };
type Wanted = NewKey & Item & { place: number };

/**
 * Imports keys, each on its own; what can't be imported keeps no other from it. A secret that is a key of the same workspace
 * already stays that key. Postgres decides between two at once, by the hash.
 */
export async function importKeys(
  importing: Importing,
  items: readonly unknown[],
): Promise<{ results: Imported[]; made: MadeKey[] }> {
  const { sql, caller, now } = importing;
  const results: Imported[] = [];
  const made: MadeKey[] = [];
  const tell = (place: number, result: 'imported' | 'restored', key: MadeKey) => {
    made.push(key);
    results[place] = { result, keyId: key.id };
  };
  async function attempt<Result>(place: number, work: () => Result | Promise<Result>): Promise<Result | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status >= 500) throw error;
      results[place] = { error };
      return undefined;
    }
  }
  // In a savepoint: a key whose credits can't be granted is not made.
  type Alone = (sql: Query) => Promise<MadeKey | undefined>;
  async function alone(place: number, result: 'imported' | 'restored', work: Alone): Promise<void> {
    const key = await attempt(place, () => (sql as Transaction).savepoint(work));
    if (key) tell(place, result, key);
  }

  const read = await Promise.all(items.map((item, place) => attempt(place, () => readItem(item, caller, now))));
  const workspaces = await holdWorkspaces(
    sql,
    caller,
    read.flatMap((one) => one?.fields ?? []),
  );
  const place = (one: Item, at: number) => ({ place: at, ...placeKey(one.fields, workspaces, one.text.home), ...one });
  const placed = await Promise.all(read.map(async (one, at) => one && attempt(at, () => place(one, at))));
  const wanted = placed.filter((one) => one !== undefined);
  const plain = wanted.filter(({ fields }) => !fields.billing);
  const ids = await insertKeys(sql, caller, plain, { imported: true, now });
  for (const one of plain) if (ids.has(one.id)) tell(one.place, 'imported', madeOf(one));
  const billing = { ...importing, seenAt: new Map<string, number>() };
  for (const one of wanted)
    if (one.fields.billing) await alone(one.place, 'imported', (inner) => insertBilled(inner, billing, one));
  const owners = await ownersOf(sql, wanted);
  for (const one of wanted.filter((each) => results[each.place] === undefined)) {
    const owner = owners.get(one.text.hash);
    const keyId = owner?.workspaceId === one.workspace.id ? owner.keyId : undefined;
    if (keyId !== undefined && one.fields.restore)
      await alone(one.place, 'restored', (inner) => restore(inner, billing, one, keyId));
    results[one.place] ??= keyId === undefined ? { error: new ApiError('key_taken') } : { result: 'existing', keyId };
  }
  return { results, made };
}

type Billing = Importing & { seenAt: Map<string, number> };

/** Inserts one whose meter it brings credits for; undefined where somebody has its hash. */
async function insertBilled(sql: Query, billing: Billing, one: Wanted): Promise<MadeKey | undefined> {
  const ids = await insertKeys(sql, billing.caller, [one], { imported: true, now: billing.now });
  if (!ids.has(one.id)) return undefined;
  return { ...madeOf(one), billed: await billOf(sql, billing, one) };
}

function billOf(sql: Query, billing: Billing, { fields, workspace }: Wanted) {
  const key = { workspaceId: workspace.id, externalMeterId: fields.externalMeterId!, name: fields.name };
  return billImported(sql, billing, key, fields.billing!);
}

/** Brings a deleted key back, unless its secret was replaced before; undefined where it is not deleted. */
async function restore(sql: Query, billing: Billing, one: Wanted, akid: string): Promise<MadeKey | undefined> {
  const { fields, text, workspace } = one;
  const isDeleted = await sql`
    select from api_keys
    where id = ${akid} and deleted_at is not null
      and exists (select from key_texts where hash = ${text.hash} and key_id = ${akid} and replaced_at is null)
    for no key update`;
  if (isDeleted.count === 0) return undefined;
  const before = await keys.require(sql, akid, sql`workspace_id = ${workspace.id}`);
  const shards = await giveMeter(sql, workspace.id, before, fields.externalMeterId);
  const assigned = set(sql, settingsOf(one, billing.now));
  await sql`update api_keys set ${assigned}, deleted_at = null where id = ${akid}`;
  const holder = { teamId: billing.caller.teamId, workspaceId: workspace.id, keyId: akid };
  await replaceGrants(sql, holder, fields.scopes ?? []);
  // One that has had its meter has had the credits for it.
  const isBilled = fields.billing && before.externalMeterId === null;
  return {
    id: akid,
    shards,
    workspaceId: workspace.id,
    before,
    ...(isBilled && { billed: await billOf(sql, billing, one) }),
  };
}

function madeOf({ id, shard, text, workspace }: Wanted): MadeKey {
  return { id, shards: [...new Set([shard, text.home])], workspaceId: workspace.id };
}

function readItem(item: unknown, caller: Caller, now: number): Item {
  const fields = readFields(item);
  if (fields.billing) requirePermission(caller, 'billing:write');
  if (fields.billing && fields.externalMeterId === undefined)
    throw invalidField('/externalMeterId', 'must be given with billing');
  checkLimits('limits', fields.limits);
  const text = readImportedText(fields, caller.teamId);
  if (typeof fields.expiresAt === 'number') requireFuture(fields.expiresAt, now);
  return { fields, text };
}

/** The keys of the caller's team that have these secrets, by their hashes. */
async function ownersOf(sql: Query, wanted: Wanted[]): Promise<Map<string, { keyId: string; workspaceId: string }>> {
  const rows = await sql<{ hash: string; keyId: string; workspaceId: string }[]>`
    select t.hash, t.key_id, k.workspace_id from key_texts t join api_keys k on k.id = t.key_id
    where t.hash = any(${wanted.map(({ text }) => text.hash)})`;
  return new Map(rows.map(({ hash, ...owner }) => [hash, owner]));
}
