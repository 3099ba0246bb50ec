import { shardOf, shardText } from '../values/key-text.ts';

/**
 * Every name in Redis is made here, and in verify.lua for the three that it learns only from a key's record. All
 * names of one shard carry its hash tag, so that whatever one script touches lives on one node of a cluster.
 */
export const keyspace = {
  /**
   * Hash: owner (the server's run id), epoch, checkpoint, the last change applied, a count of writes to
   * its records that began at the moment of its opening, and the build fields of a reopening.
   */
  meta: (shard: number) => `${tag(shard)}meta`,
  /** Stream of usage events on their way to the books. */
  outbox: (shard: number) => `${tag(shard)}outbox`,
  /** Stream of outbox entries that are no event, each with the reason: nothing is thrown away unseen. */
  dead: (shard: number) => `${tag(shard)}dead`,
  /** Packed record of an API key, one for each of its texts. */
  keyText: (shard: number, hash: string) => `${tag(shard)}k:${hash}`,
  /** Packed record of an access token. */
  token: (shard: number, hash: string) => `${tag(shard)}t:${hash}`,
  /** Sorted set: when access tokens were used, in ms, on its way to Postgres. */
  tokenUses: (shard: number) => `${tag(shard)}uses`,
  /** Hash: `d` the workspace's defaults, `s<ref>` each of its scopes. In every shard. */
  workspace: (shard: number, workspaceId: string) => `${tag(shard)}w:${workspaceId}`,
  /**
   * Hash: `s` settings, `u` used micro-credits, `n<epoch>` the last sequence number in each epoch, `a` the number of the
   * last adjustment; `x` what of `u` is from the books alone, and `c` the number of events that this is the sum of.
   */
  billing: (shard: number, workspaceId: string, meter: string) => `${tag(shard)}b:${workspaceId}:${meter}`,
  /** GCRA's theoretical arrival time of a key. */
  rate: (shard: number, keyId: string) => `${tag(shard)}r:${keyId}`,
  /** How often authentication failed from a network, for a minute. */
  failures: (shard: number, network: string) => `${tag(shard)}f:${network}`,
  /** What an Idempotency-Key of a verification stands for, by access token and API key. */
  idempotency: (shard: number, keyId: string, hash: string) => `${tag(shard)}i:${keyId}:${hash}`,
};

/** The shard of a workspace's external meter: its billing record, and every key that draws on it. */
export function meterShard(workspaceId: string, meter: string): number {
  return shardOf(`${workspaceId}:${meter}`);
}

/** The consumer group that carries events from the outbox to the books. */
export const OUTBOX_GROUP = 'books';

/**
 * Ends each field of a packed record: a character that no field may contain, and the one that Lua's `struct.unpack`
 * takes in a third of the time of a pattern. The first field is always the version, the second `-` for a tombstone.
 */
const END = '\0';

/** Packs a record; see unpackRecord in the scripts that read it for the order of its fields. */
export function pack(version: number, fields: readonly (string | number)[]): string {
  return packFields([version, ...fields]);
}

/** Packs what a script takes as one argument. */
export function packFields(fields: readonly (string | number)[]): string {
  return fields.join(END) + END;
}

/** The fields of a packed record, the version first. */
export function unpack(record: string): string[] {
  return record.split(END).slice(0, -1);
}

/** The last two fields of a packed record. */
export function lastFields(record: string): [beforeLast: string, last: string] {
  const end = record.lastIndexOf(END, record.length - 2);
  return [record.slice(record.lastIndexOf(END, end - 1) + 1, end), record.slice(end + 1, -1)];
}

/** The flags of a scope, four bits, as the low bits of a character. */
export function flagCharacter(flags: number): string {
  return String.fromCharCode(0x40 | flags);
}

/** The flags that stand at a place of a text. */
export function flagsOf(characters: string, at: number): number {
  return characters.charCodeAt(at) & 0xf;
}

/** The version of a packed record. */
export function versionOf(value: string): number {
  return Number(value.slice(0, value.indexOf(END)));
}

/** What is left of a record that is gone: no late writer of an older version can fill its place. */
export function tombstone(version: number): string {
  return pack(version, ['-']);
}

function tag(shard: number): string {
  return `{${shardText(shard)}}:`;
}
