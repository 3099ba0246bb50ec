import { shardOf, shardText } from '../values/key-text.ts';

/**
 * Every name in Redis is made here; verify.lua makes those that it learns only from a key's record. All
 * names of one shard carry its hash tag, so that all that one script touches lives on one node of a cluster.
 */
export const keyspace = {
  /**
   * Hash: owner (the server's run id), epoch, checkpoint, its history, the number of the last change, `writes` (counts the writes of
   * its records, from the Redis time of its opening on), and the fields of a reopening: build, buildUntil, closedAt,
   * closedFor, openedAt; and holdKeys, what MACs of holds are made with (hold-keys.ts).
   */
  meta: (shard: number) => `${tag(shard)}meta`,
  /** Stream of usage events on their way to the books; an entry holds those of one script, of this shard and others. */
  outbox: (shard: number) => `${tag(shard)}outbox`,
  /** How many events the outbox holds beyond one per entry; the scripts alone write it. */
  more: (shard: number) => `${tag(shard)}more`,
  /** Stream of what was no event in an outbox, each with the reason, so that nothing is thrown away unseen. */
  dead: (shard: number) => `${tag(shard)}dead`,
  /** Packed record of an API key, one for each secret that it has. */
  keyText: (shard: number, hash: string) => `${tag(shard)}k:${hash}`,
  /** Packed record of an access token. */
  token: (shard: number, hash: string) => `${tag(shard)}t:${hash}`,
  /** Sorted set: when access tokens were last used, in ms, on the way to Postgres. */
  tokenUses: (shard: number) => `${tag(shard)}uses`,
  /** Hash of packed records: `d` the workspace's defaults, `s<ref>` each of its scopes. In every shard. */
  workspace: (shard: number, workspaceId: string) => `${tag(shard)}w:${workspaceId}`,
  /**
   * Hash: `s` settings (packed record), `u` used micro-credits, `n<epoch>` the last sequence number in each epoch, `a` the
   * number of the last adjustment, `c` how many lines of earlier epochs it was rebuilt from. `u` is `aside <mark> <since ms>` until its balance is
   * taken from the books, and of an account (docs/accounts-design.md) a packed text, with `t` its state after the last moment.
   */
  billing: (shard: number, workspaceId: string, meter: string) => `${tag(shard)}b:${workspaceId}:${meter}`,
  /** Sorted set: the names of billing records whose accounts have a moment to come, by when it comes, in ms. */
  due: (shard: number) => `${tag(shard)}due`,
  /** Hash: the open holds of a billing record, by their 26 characters. The capture script and others make these names, too. */
  openHolds: (shard: number, workspaceId: string, meter: string) => `${tag(shard)}o:${workspaceId}:${meter}`,
  /** Sorted set of them by when they end, in ms. */
  holdEnds: (shard: number, workspaceId: string, meter: string) => `${tag(shard)}e:${workspaceId}:${meter}`,
  /** Packed list of the addresses that may use a workspace's keys, in one shard, or a key, in the key's (address-lists.ts). */
  addressList: (shard: number, ownerId: string) => `${tag(shard)}a:${ownerId}`,
  /** GCRA's theoretical arrival time of a key. */
  rate: (shard: number, keyId: string) => `${tag(shard)}r:${keyId}`,
  /**
   * What the limits over windows of a key, or of a billing record (`<workspace>:<meter>`), have counted: for each its counter's
   * name (limits.ts), level, since when, and the limit then. It lives until all of them would be 0.
   */
  limits: (shard: number, owner: string) => `${tag(shard)}l:${owner}`,
  /** How often authentication failed from a network; lives for a minute. */
  failures: (shard: number, network: string) => `${tag(shard)}f:${network}`,
  /** The first answer to an Idempotency-Key of a verification, by API key and a hash of access token and Idempotency-Key. */
  idempotency: (shard: number, keyId: string, hash: string) => `${tag(shard)}i:${keyId}:${hash}`,
  /** What addresses of end clients were sealed with in an hour from 1970 on (sealed-addresses.ts); lives for 25 hours. In one shard. */
  addressKey: (hour: number) => `${tag(0)}q:${hour}`,
  /** The newest head of the audit log's chain, as a witness beside Postgres. In one shard. */
  auditHead: () => `${tag(0)}audit-head`,
};

/** The shard of a workspace's external meter: its billing record, and every key that draws on it. */
export function meterShard(workspaceId: string, meter: string): number {
  return shardOf(`${workspaceId}:${meter}`);
}

/** The consumer group that carries events from the outbox to the books. */
export const OUTBOX_GROUP = 'books';

function tag(shard: number): string {
  return `{${shardText(shard)}}:`;
}
