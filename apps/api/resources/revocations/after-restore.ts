import type { Sql, Transaction } from '../../../../shared/stores/postgres.ts';
import { recordAudit, type AuditLine, type AuditOrigin, type AuditResource } from '../audit.ts';
import { billings, billingSettings, type BillingRow } from '../billings/billings.ts';
import { disableLockedKeys } from '../keys/keys.ts';
import { ofLiveWorkspace } from '../access/link-tokens.ts';
import { retiredKey, revokedToken, revokeLinkTokens } from './revocations.ts';
import { scopes } from '../keys/scopes.ts';
import { retireAll } from '../jwts/signing-keys.ts';
import { accessTokens } from '../access/tokens.ts';
import { workspaces } from '../workspaces.ts';

// What is refused after Postgres was restored from an older backup (apps/api/commands/restored.ts), with a line in the audit
// log for each: the operator did it.

/** What changed after the backup, by ids; a billing record with the limit that was in force and the one of the backup. */
export type ChangedLater = Record<'keys' | 'tokens' | 'scopes' | 'deletedWorkspaces', string[]> & {
  limits: { id: string; inForceMicros: number; ofBackupMicros: number }[];
};
export type EndedOfTeam = { teamId: string; signingKeys: number; linkTokens: number };

const TEAMS_AT_ONCE = 100;
const ROWS_AT_ONCE = 500;

/** Disables, revokes or deletes what changed after the backup. */
export async function refuseChanged(tx: Transaction, changed: ChangedLater): Promise<void> {
  for (const ids of pages(changed.keys)) await disableKeys(tx, ids);
  const gone = (resource: AuditResource, present: (row: never) => object) => (row: { id: string }) =>
    ({ resource, id: row.id, before: present(row as never) }) satisfies AuditLine;
  const ended = [
    ['access_tokens', 'revoked_at', changed.tokens, accessTokens, revokedToken],
    ['scopes', 'deleted_at', changed.scopes, scopes, gone('scope', scopes.present)],
    ['workspaces', 'deleted_at', changed.deletedWorkspaces, workspaces, gone('workspace', workspaces.present)],
  ] as const;
  for (const [table, column, all, { columns }, lineOf] of ended)
    for (const ids of pages(all)) {
      const rows = await tx<{ id: string; ofTeam: string }[]>`
        update ${tx(table)} set ${tx(column)} = now() where id = any(${ids}) and ${tx(column)} is null
        returning ${columns(tx)}, team_id as of_team`;
      for (const { ofTeam, ...row } of rows) await recordAudit(tx, operator(ofTeam), [lineOf(row as never)]);
    }
  for (const limit of changed.limits) await keepLowerLimit(tx, limit);
}

/**
 * Ends all sessions, and all signing keys and link tokens, team by team: Redis has no copy of them, so nobody knows which
 * had ended, and which JWTs were revoked, after the backup. Each page is a transaction; called again, it goes on with what is left.
 */
export async function endUncopied(sql: Sql, onEnded: (ended: EndedOfTeam) => void): Promise<void> {
  await sql`delete from sessions`;
  for (let after = ''; ;) {
    const teams = await sql<{ id: string }[]>`
      select id from teams t
      where id > ${after}
        and (exists (select from signing_keys where team_id = t.id and published_until > now())
             or exists (select from link_tokens where team_id = t.id and ${isLive(sql)}))
      order by id limit ${TEAMS_AT_ONCE}`;
    for (const { id: teamId } of teams)
      onEnded({ teamId, signingKeys: await endSigningKeys(sql, teamId), linkTokens: await endLinkTokens(sql, teamId) });
    if (teams.length < TEAMS_AT_ONCE) return;
    after = teams.at(-1)!.id;
  }
}

type OfTeam<Row> = Row & { ofTeam: string };

async function disableKeys(tx: Transaction, ids: string[]): Promise<void> {
  const locked = await tx<{ id: string; teamId: string }[]>`
    select id, team_id from api_keys where id = any(${ids}) order by id for no key update`;
  const teams = new Map(locked.map(({ id, teamId }) => [id, teamId]));
  for (const line of await disableLockedKeys(tx, [...teams.keys()]))
    await recordAudit(tx, operator(teams.get(line.id)!), [line]);
}

// If the limit was lowered after the backup, it stays low.
async function keepLowerLimit(
  tx: Transaction,
  { id, inForceMicros, ofBackupMicros }: ChangedLater['limits'][number],
): Promise<void> {
  if (inForceMicros >= ofBackupMicros) return;
  const [before] = await tx<OfTeam<BillingRow>[]>`
    select ${billings.columns(tx)}, team_id as of_team from billing_records where id = ${id} for no key update`;
  const [after] = await tx<BillingRow[]>`
    update billing_records set spend_cap_micros = least(spend_cap_micros, ${inForceMicros}) where id = ${id}
    returning ${billings.columns(tx)}`;
  if (!before || !after) return;
  const [was, is] = [before, after].map(billingSettings);
  await recordAudit(tx, operator(before.ofTeam), [{ resource: 'billing', id, before: was, after: is }]);
}

function endSigningKeys(sql: Sql, teamId: string): Promise<number> {
  return sql.begin(async (tx) => {
    const kids = await retireAll(tx, teamId);
    await recordAudit(tx, operator(teamId), kids.map(retiredKey));
    return kids.length;
  });
}

async function endLinkTokens(sql: Sql, teamId: string): Promise<number> {
  for (let ended = 0; ;) {
    const rows = await sql.begin(async (tx) => {
      const page = tx`select id from link_tokens where team_id = ${teamId} and ${isLive(tx)} order by id limit ${ROWS_AT_ONCE}`;
      const revoked = await revokeLinkTokens(tx, tx`id in (${page})`);
      await recordAudit(tx, operator(teamId), revoked);
      return revoked;
    });
    ended += rows.length;
    if (rows.length < ROWS_AT_ONCE) return ended;
  }
}

function isLive(sql: Sql | Transaction) {
  return sql`revoked_at is null and expires_at > extract(epoch from now()) * 1000 and ${ofLiveWorkspace(sql)}`;
}

function operator(teamId: string): AuditOrigin {
  return { teamId, tokenId: null, operation: 'npm run restored', requestId: null };
}

function* pages(ids: string[]): Generator<string[]> {
  for (let i = 0; i < ids.length; i += ROWS_AT_ONCE) yield ids.slice(i, i + ROWS_AT_ONCE);
}
