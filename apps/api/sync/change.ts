/** The kinds of entities that Redis has a copy of. */
export type EntityKind = 'token' | 'workspace' | 'scope' | 'key' | 'billing';

/** A changed entity, whose copy in Redis must follow, or an adjustment to apply; a null shard means a copy in every shard. */
export type Change = { kind: EntityKind | 'adjustment'; entityId: string; shard: number | null };

/** A change as the table `changes` holds it. */
export type StoredChange = Change & { id: number };

/** One versioned value in Redis: a field of a hash, or a plain string where `field` is empty. */
export type Entry = {
  kind: EntityKind;
  id: string;
  shard: number;
  key: string;
  field: string;
  /** Bytes: a list of addresses, which has the version of the record that names it. */
  value: string | Buffer;
  /** 0: it stays forever. Below 0: it leaves, because no writer of an older version is left. */
  lifetimeSeconds: number;
};

/**
 * Which rows to load: those of some ids, whatever became of them, for the changes of these numbers; or those that an empty
 * shard needs.
 */
export type Selection = { ids: string[]; changeIds: number[] } | { shard: number };

/** The lifetime of an entry that leaves. */
export const LEAVES = -1;

/** How long a tombstone stays. No late writer outlives it: an apply script refuses to run after its deadline. */
export const TOMBSTONE_SECONDS = 86_400;

/** How long what was loaded for a change may be written. */
export const WRITE_WITHIN_MS = 15_000;

/**
 * How long the tombstone of a replaced secret stays. A key may be rotated thousands of times a day, so it stays only for as
 * long as a writer may be late, with a margin.
 */
export const SECRET_TOMBSTONE_SECONDS = 60;
