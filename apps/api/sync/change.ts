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
  value: string;
  /** 0: it stays forever. */
  lifetimeSeconds: number;
};

/** Which rows to load: those of some ids, or all that live in a shard. */
export type Selection = { ids: string[] } | { shard: number };

/** How long a tombstone stays. No late writer outlives it: an apply script refuses to run after its deadline. */
export const TOMBSTONE_SECONDS = 86_400;
