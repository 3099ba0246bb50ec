import { createHmac } from 'node:crypto';
import type { Query } from '../../../shared/stores/postgres.ts';

/** A place in the chain: how many lines it has up to there, and the mac of the last one. */
export type Head = { number: number; mac: string };

/** All fields of a line as text. A test compares them with the columns of the table: a new one must be proved too. */
export type LineFields = Record<(typeof names)[number], string | null>;

const names = [
  'id',
  'teamId',
  'tokenId',
  'operation',
  'resource',
  'resourceId',
  'before',
  'after',
  'requestId',
  'createdMicros',
  'outcome',
  'errorCode',
  'attempts',
  'address',
  'userAgent',
] as const;

/** What comes before the first line. */
export const BEGINNING: Head = { number: 0, mac: '0'.repeat(64) };

/** The fields of a line of `audit_log as l`, for a select. */
export function lineFields(sql: Query) {
  return sql`
    l.id, l.team_id, l.token_id, l.operation, l.resource, l.resource_id, l.before::text, l.after::text, l.request_id,
    (extract(epoch from l.created_at) * 1000000)::bigint::text as created_micros, l.outcome, l.error_code::text,
    l.attempts::text, l.address, l.user_agent`;
}

/**
 * Chains a line to the one before it: an HMAC-SHA256 over its number, the mac before it and all its fields. Each field stands
 * with its length in bytes, so no two lines read alike.
 */
export function nextHead(key: Buffer, before: Head, line: LineFields): Head {
  const number = before.number + 1;
  const fields = names.map((name) => {
    const text = line[name];
    return text === null ? '-' : `${Buffer.byteLength(text)}:${text}`;
  });
  const mac = createHmac('sha256', key).update(`keytally audit line 1\n${number}\n${before.mac}\n${fields.join(',')}`);
  return { number, mac: mac.digest('hex') };
}

/** A head as people and Redis keep it. */
export function headText({ number, mac }: Head): string {
  return `${number}:${mac}`;
}

/** Reads what `headText` wrote; undefined for any other text. */
export function parseHead(text: string): Head | undefined {
  const [, number, mac] = /^([1-9]\d{0,15}):([0-9a-f]{64})$/.exec(text) ?? [];
  return mac === undefined ? undefined : { number: Number(number), mac };
}
