import { END, packFields, readFields } from './fields.ts';

/**
 * The fields of each packed record in Redis, in their order. The first is always the version; in a tombstone the second
 * is `-` and the last. The Lua scripts use the same names (verification/script-protocol.test.ts compares them).
 */
export const recordFields = {
  /** An API key, one record for each secret that it has. */
  key: [
    'version',
    /** `A` enabled, `X` disabled, `D` deleted. */
    'state',
    'teamId',
    'workspaceId',
    'keyId',
    /** Unix ms, 0: never. */
    'expiresAtMs',
    /** Until when this secret is valid, in Unix ms, 0: as long as the key. */
    'validUntilMs',
    /** Empty: the workspace's default. Its limits over windows stand behind an `@` (limits.ts); without one those of the workspace. */
    'ratePerSecond',
    /** Names its list of addresses (address-lists.ts); `*`: every address; empty: the workspace's default. */
    'addressList',
    /** The external meter, empty when the key is not metered. */
    'meter',
    /** JSON list of the workspace's fields to read for it: `d`, its defaults, and each scope that it was granted. */
    'workspaceFields',
    /** One character for each of those scopes, whose low four bits are its flags. */
    'scopeFlags',
    /** Its part of a verification's answer, ready-made: JSON without the braces. */
    'answerPart',
  ],
  /** In the place of a key's record, in the shard of its hash: the key was made elsewhere and lives in another shard. */
  pointer: ['version', 'state', 'teamId', 'shard'],
  /** The defaults of a workspace; `defaultRatePerSecond` may have limits over windows behind an `@`. */
  workspace: ['version', 'defaultRatePerSecond', 'defaultAddressList'],
  /** A scope of a workspace. The script knows it by the mark of its representation (scope-mark.ts), after a `#`. */
  scope: ['version', 'representation', 'scopeId', 'mark'],
  /**
   * The settings of a billing record; `limitMicros` is the most that may be used, and behind an `@` its limits over windows
   * (limits.ts). In settings with classes of credits (account-settings.ts) it begins with the `@`, and the classes stand
   * behind the record.
   */
  billing: ['version', 'billingId', 'limitMicros', 'answerPart'],
  /**
   * An access token. `permissions`, `workspaceIds` and `allowedIps` stand between spaces; `*`: all workspaces; no
   * `allowedIps`: every address.
   */
  token: [
    'version',
    'tokenId',
    'teamId',
    'permissions',
    'workspaceIds',
    'expiresAtMs',
    'allowedIps',
    /** Verifications per second that its team has as its own limit; empty: the default. */
    'teamPerSecond',
  ],
} as const;

export type RecordKind = keyof typeof recordFields;
type Field<Kind extends RecordKind> = (typeof recordFields)[Kind][number];

/** Packs a record. */
export function packRecord<Kind extends RecordKind>(
  kind: Kind,
  values: Readonly<Record<Field<Kind>, string | number>>,
): string {
  return packFields<Field<Kind>>(recordFields[kind], values);
}

/** The fields of a packed record; '' for those that it lacks. */
export function readRecord<Kind extends RecordKind>(kind: Kind, record: string): Record<Field<Kind>, string> {
  return readFields<Field<Kind>>(recordFields[kind], record);
}

/** What is left of a record that is gone: no late writer of an older version can fill its place. */
export function tombstone(version: number): string {
  return version + END + TOMBSTONE + END;
}

/** Whether there is no record: none was ever written, or a tombstone took its place. */
export function isGone(record: string): boolean {
  return record === '' || record.split(END, 2)[1] === TOMBSTONE;
}

/** The version of a packed record. */
export function versionOf(record: string | Buffer): number {
  const text = record.toString();
  return Number(text.slice(0, text.indexOf(END)));
}

/** The flags of a scope, four bits, as the low bits of a character. */
export function flagCharacter(flags: number): string {
  return String.fromCharCode(0x40 | flags);
}

/** The flags that stand at a place of a text. */
export function flagsOf(characters: string, at: number): number {
  return characters.charCodeAt(at) & 0xf;
}

const TOMBSTONE = '-';

/** The state of a pointer, where a key's record has its own. */
export const POINTER = '>';
