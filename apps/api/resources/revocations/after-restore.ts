import { beforeLimits } from '../../../../shared/stores/limits.ts';
import type { Sql, Transaction } from '../../../../shared/stores/postgres.ts';
import { isGone, readRecord } from '../../../../shared/stores/records.ts';
import { chunks } from '../../../../shared/values/chunks.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import type { Entry } from '../../sync/change.ts';
import { recordAudit, type AuditOrigin } from '../record.ts';
import { billings, type BillingRow } from '../billings/billings.ts';
import { disableLockedKeys } from '../keys/keys.ts';
import { ofLiveWorkspace } from '../access/link-tokens.ts';
import { retiredKey, revokedToken, revokeLinkTokens } from './revocations.ts';
import { scopes } from '../keys/scopes.ts';
import { retireAll } from '../jwts/signing-keys.ts';
import { accessTokens } from '../access/tokens.ts';
import { workspaces } from '../workspaces.ts';

// What is refused after Postgres was restored from an older backup (apps/api/commands/restored.ts), with a line in the audit
// log for each: the operator did it.

/** A record of which Redis has a newer version than Postgres, or which has left it: what Redis has, and what it would be of the backup. */
export type Newer = Pick<Entry, 'kind' | 'id'> & { inRedis: string; ofBackup: string };
export type EndedOfTeam = { teamId: string; signingKeys: number; linkTokens: number };

const ROWS_AT_ONCE = 500;

/** Disables, revokes or deletes what changed after the backup; gives what to tell the operator of each. */
export async function refuseChanged(tx: Transaction, newer: Newer[]): Promise<string[]> {
  const of = (kind: Newer['kind']) => newer.filter((one) => one.kind === kind);
  const [deleted, changed] = [true, false].map((isDeleted) =>
    of('workspace').filter(({ inRedis }) => isGone(inRedis) === isDeleted),
  );
  const ended = {
    tokens: ['access_tokens', 'revoked_at', accessTokens, revokedToken],
    scopes: ['scopes', 'deleted_at', scopes, (before: never) => scopes.recorded({ before })],
    workspaces: ['workspaces', 'deleted_at', workspaces, (before: never) => workspaces.recorded({ before })],
  } as const;
  const end = (what: keyof typeof ended) => async (ids: string[]) => {
    const [table, column, { columns }, lineOf] = ended[what];
    const rows = await tx<{ id: string; ofTeam: string }[]>`
      update ${tx(table)} set ${tx(column)} = now() where id = any(${ids}) and ${tx(column)} is null
      returning ${columns(tx)}, team_id as of_team`;
    for (const { ofTeam, ...row } of rows) await recordAudit(tx, operator(ofTeam), [lineOf(row as never)]);
  };
  const told: string[] = [];
  for (const [some, refuse, what] of [
    [of('key'), (ids: string[]) => disableKeys(tx, ids), 'is disabled; enable it if it should be valid'],
    [of('token'), end('tokens'), 'is revoked; create another one'],
    [of('scope'), end('scopes'), 'is deleted; create it again if you need it'],
    [deleted!, end('workspaces'), 'is deleted, with its keys'],
    [changed!, async () => {}, 'has the defaults of the backup; check its rate limit and allowed addresses'],
  ] as const) {
    for (const page of chunks(some, ROWS_AT_ONCE)) await refuse(page.map(({ id }) => id));
    told.push(...some.map(({ id }) => `${id} ${what}`));
  }
  for (const { id, inRedis, ofBackup } of of('billing')) {
    const [before, now] = [limitOf(inRedis), limitOf(ofBackup)];
    if (before < now) await keepLimit(tx, id, before);
    const [had, has] = [before, now].map(formatCredits);
    told.push(`${id} had a limit of ${had} credits and now has at most that of the backup, ${has}`);
  }
  return told;
}

/**
 * Ends all sessions, and all signing keys and link tokens: Redis has no copy of them, so nobody knows which had ended, and which JWTs
 * were revoked, after the backup. Each team is a transaction; called again, it goes on with what is left.
 */
export async function endUncopied(sql: Sql, onEnded: (ended: EndedOfTeam) => void): Promise<void> {
  await sql`delete from sessions`;
  const isLive = sql`revoked_at is null and expires_at > extract(epoch from now()) * 1000 and ${ofLiveWorkspace(sql)}`;
  const teams = await sql<{ id: string }[]>`
    select id from teams t
    where exists (select from signing_keys where team_id = t.id and published_until > now())
      or exists (select from link_tokens where team_id = t.id and ${isLive})
    order by id`;
  for (const { id: teamId } of teams)
    await sql.begin(async (tx) => {
      const keys = (await retireAll(tx, teamId)).map(retiredKey);
      const links = await revokeLinkTokens(tx, tx`team_id = ${teamId} and ${isLive}`);
      await recordAudit(tx, operator(teamId), [...keys, ...links]);
      onEnded({ teamId, signingKeys: keys.length, linkTokens: links.length });
    });
}

type OfTeam<Row> = Row & { ofTeam: string };

async function disableKeys(tx: Transaction, ids: string[]): Promise<void> {
  const locked = await tx<{ id: string; teamId: string }[]>`
    select id, team_id from api_keys where id = any(${ids}) order by id for no key update`;
  const teams = new Map(locked.map(({ id, teamId }) => [id, teamId]));
  for (const line of await disableLockedKeys(tx, [...teams.keys()]))
    await recordAudit(tx, operator(teams.get(line.id)!), [line]);
}

// If the limit was lowered after the backup, it stays low. Of a record with classes of credits the account in Redis knows what may be
// used, and takes nothing back.
function limitOf(value: string): number {
  return Number(beforeLimits(readRecord('billing', value).limitMicros));
}

async function keepLimit(tx: Transaction, id: string, micros: number): Promise<void> {
  const [before] = await tx<OfTeam<BillingRow>[]>`
    select ${billings.columns(tx)}, team_id as of_team from billing_records where id = ${id} for no key update`;
  const [after] = await tx<BillingRow[]>`
    update billing_records set spend_cap_micros = least(spend_cap_micros, ${micros}) where id = ${id}
    returning ${billings.columns(tx)}`;
  if (!before || !after) return;
  await recordAudit(tx, operator(before.ofTeam), [billings.recorded({ before, after })]);
}

function operator(teamId: string): AuditOrigin {
  return { teamId, tokenId: null, operation: 'npm run restored', requestId: null };
}
