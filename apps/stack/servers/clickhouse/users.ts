import { hash, timingSafeEqual } from 'node:crypto';
import type { Statement } from './engine.ts';
import { Refusal } from './refusal.ts';

/** Who may ask, as on Docker Compose (deploy/clickhouse/users.xml): the owner of the schema, who reads, and who adds rows. */
export const users = ['keytally', 'keytally_api', 'keytally_consumer'] as const;
export type User = (typeof users)[number];
export type Passwords = Record<User, string>;

const AUTHENTICATION_FAILED = 516;
const ACCESS_DENIED = 497;

/** The user whose name and password a request gives as basic authentication; throws what ClickHouse answers to others. */
export function userOf(authorization: string | undefined, passwords: Passwords): User {
  const [, given = ''] = /^basic\s+(\S+)/i.exec(authorization ?? '') ?? [];
  const digest = (text: string) => hash('sha256', text, 'buffer');
  const asked = digest(Buffer.from(given, 'base64').toString());
  const user = users.find((name) => timingSafeEqual(asked, digest(`${name}:${passwords[name]}`)));
  if (user) return user;
  const problem = 'Authentication failed: basic authentication must give a user and a password, as in CLICKHOUSE_URL';
  throw new Refusal(AUTHENTICATION_FAILED, 'AUTHENTICATION_FAILED', problem);
}

// The engine itself lets nobody reach files, hosts and programs by tables and table functions (users.xml). These are no tables:
// the function `file`, which its name in quotes calls too, files of an INSERT or an answer, and disks that a CREATE TABLE makes up.
const gap = String.raw`(?:[\x60"”]|\s|/\*.*?\*/|(?:--|#)[^\n]*\n)*`;
const outside = new RegExp(`\\b(?:file|disk)${gap}\\(|\\binto${gap}\\boutfile\\b|\\bfrom${gap}\\binfile\\b`, 'is');
// A quoted name with an escape could be any of them.
const escapedName = /[`"“”][^`"“”'\n]*\\[^`"“”'\n]*[`"“”]/;

/** A user's statement as that user may run it; throws if it may not. */
export function permit(user: User, statement: Statement): Statement {
  const { sql, settings } = statement;
  if (outside.test(sql) || escapedName.test(sql)) throw denied('statements reach no files and disks');
  if (user === 'keytally_api')
    return { ...statement, settings: { ...settings, readonly: settings.readonly === '1' ? '1' : '2' } };
  if (user === 'keytally_consumer' && !/^\s*(?:select|with|insert)\b/i.test(sql))
    throw denied(`${user} may only select and insert`);
  return statement;
}

function denied(why: string): Refusal {
  return new Refusal(ACCESS_DENIED, 'ACCESS_DENIED', `Not enough privileges: ${why}`);
}
