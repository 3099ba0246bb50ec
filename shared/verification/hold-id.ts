import { createHmac, timingSafeEqual } from 'node:crypto';
import { packFields, readFields } from '../stores/fields.ts';
import { SHARDS } from '../values/key-text.ts';

/** What the id of a hold says of it: enough to settle it where Redis has lost it. */
export type HoldFields = Record<(typeof holdFields)[number], string>;

const holdFields = [
  'shard',
  'workspaceId',
  'meter',
  'billingId',
  /** 26 characters: those of its event's id after `evt_`. */
  'id',
  'keyId',
  'usageName',
  'micros',
  'openedMs',
  'endsAtMs',
  'epoch',
  'onExpiry',
] as const;

const PREFIX = 'hold_';
const MAC_BYTES = 16;

/** The id of a hold. Its MAC is also over the team, so that another team's token finds nothing. */
export function makeHoldId(fields: HoldFields, teamId: string, key: Buffer): string {
  const said = Buffer.from(packFields(holdFields, fields));
  return PREFIX + Buffer.concat([said, macOf(said, teamId, key)]).toString('base64url');
}

/** The shard that an id names, which is not proved yet; undefined where it names none. */
export function shardInHoldId(text: string): number | undefined {
  const [, shard] = /^(\d{1,2})\0/.exec(Buffer.from(text.slice(PREFIX.length), 'base64url').toString('latin1')) ?? [];
  return shard !== undefined && Number(shard) < SHARDS ? Number(shard) : undefined;
}

/** What an id says; undefined unless one of these keys made it for this team, exactly so: an id has one text. */
export function readHoldId(text: string, teamId: string, keys: readonly Buffer[]): HoldFields | undefined {
  const bytes = Buffer.from(text.slice(PREFIX.length), 'base64url');
  if (bytes.length <= MAC_BYTES || PREFIX + bytes.toString('base64url') !== text) return undefined;
  const said = bytes.subarray(0, -MAC_BYTES);
  const mac = bytes.subarray(-MAC_BYTES);
  const isOurs = keys.some((key) => timingSafeEqual(macOf(said, teamId, key), mac));
  return isOurs ? readFields(holdFields, said.toString()) : undefined;
}

function macOf(said: Buffer, teamId: string, key: Buffer): Buffer {
  return createHmac('sha256', key).update(`${teamId}\0`).update(said).digest().subarray(0, MAC_BYTES);
}
