import type { Sql, Transaction } from '../../../../shared/stores/postgres.ts';
import type { Change } from '../../sync/change.ts';
import { lockTeamTokens } from '../access/access.ts';
import { recordAudit, type AuditLine } from '../audit.ts';
import { disableLockedKeys } from '../keys/keys.ts';
import { linkTokenColumns, ofLiveWorkspace, presentLinkToken, type LinkTokenRow } from '../access/link-tokens.ts';
import { retireAll } from '../jwts/signing-keys.ts';
import { tokenLine, type Revocation, type RevocationPage, type RevocationStep } from './revocations.ts';
import { tokenColumns, type TokenRow } from '../access/tokens.ts';

// Everything that a team has given out, revoked: access tokens, link tokens, signing keys, API keys. The first transaction
// ends what can be ended at once; the pages of the rest are work in the table `revocations`.

/** `since`: when an earlier request that is not finished was made; this one goes on with it, and with what came after. */
export type BegunRevocation = { id: number; since: Date | undefined; signingKeys: number };

/**
 * Begins to revoke everything of a team. Where that was begun and is not finished, it begins again from the first step, for
 * the team may have made more since. From the commit on, the api refuses every access
 * token that the team has, and JWTs that it has signed are INVALID.
 */
export async function beginTeamRevocation(sql: Sql, teamId: string, operation: string): Promise<BegunRevocation> {
  return sql.begin(async (tx) => {
    await lockTeamTokens(tx, teamId, { alone: true });
    const [known] = await tx<{ since: Date }[]>`
      select requested_at as since from revocations where team_id = ${teamId} and token_id is null`;
    const [begun] = await tx<[{ id: number }]>`
      insert into revocations (team_id, operation) values (${teamId}, ${operation})
      on conflict (team_id, token_id) do update
        set step = excluded.step, done_to = excluded.done_to, requested_at = excluded.requested_at, worked_at = excluded.worked_at
      returning id`;
    // From the row, not from here: a date in JavaScript has no microseconds.
    await tx`
      update teams set tokens_revoked_at = (select requested_at from revocations where id = ${begun.id})
      where id = ${teamId}`;
    const kids = await retireAll(tx, teamId);
    const lines = kids.map((kid): AuditLine => ({
      resource: 'signing_key',
      id: kid,
      before: { kid },
      after: undefined,
    }));
    lines.push(...(await disableWebhooks(tx, teamId)));
    await recordAudit(tx, { teamId, tokenId: null, operation, requestId: null }, lines);
    return { id: begun.id, since: known?.since, signingKeys: kids.length };
  });
}

/** A stolen token may have made some, which tell a stranger what happens. A team has a few. */
async function disableWebhooks(tx: Transaction, teamId: string): Promise<AuditLine[]> {
  const rows = await tx<{ id: string }[]>`
    update webhooks set enabled = false, disabled_reason = 'REQUESTED', disabled_at = now(), updated_at = now()
    where team_id = ${teamId} and enabled and deleted_at is null returning id`;
  const after = { enabled: false, disabledReason: 'REQUESTED' };
  return rows.map(({ id }) => ({ resource: 'webhook', id, before: { enabled: true }, after }));
}

/** Revokes the next page of what a team had when its revocation was requested. */
export async function nextOfTeam(tx: Transaction, revocation: Revocation, atMost: number): Promise<RevocationPage> {
  const { rows, ...page } = await pages[revocation.step](tx, revocation, atMost);
  if (rows.length === atMost) await tx`update revocations set done_to = ${rows.at(-1)!.id} where id = ${revocation.id}`;
  else await beginNextStep(tx, revocation);
  return page;
}

type Page = RevocationPage & { rows: { id: string }[] };

const pages: Record<RevocationStep, (tx: Transaction, revocation: Revocation, atMost: number) => Promise<Page>> = {
  tokens: revokeTokens,
  link_tokens: revokeLinkTokens,
  keys: disableKeys,
};
// What can do the most harm comes first.
const stepAfter: Record<RevocationStep, RevocationStep | undefined> = {
  tokens: 'keys',
  keys: 'link_tokens',
  link_tokens: undefined,
};

async function beginNextStep(tx: Transaction, { id, step }: Revocation): Promise<void> {
  const next = stepAfter[step];
  if (next) await tx`update revocations set step = ${next}, done_to = '' where id = ${id}`;
  else await tx`delete from revocations where id = ${id}`;
}

async function revokeTokens(tx: Transaction, revocation: Revocation, atMost: number): Promise<Page> {
  const rows = await tx<TokenRow[]>`
    update access_tokens set revoked_at = now(), version = version + 1, updated_at = now()
    where id in (select id from access_tokens where ${isNext(tx, revocation)} and revoked_at is null order by id limit ${atMost})
    returning ${tokenColumns(tx)}`;
  const changes = rows.map(({ id, shard }): Change => ({ kind: 'token', entityId: id, shard }));
  return { rows: byId(rows), changes, lines: rows.map(tokenLine) };
}

async function disableKeys(tx: Transaction, revocation: Revocation, atMost: number): Promise<Page> {
  const isLive = tx`exists (select from workspaces w where w.id = api_keys.workspace_id and w.deleted_at is null)`;
  const rows = await tx<{ id: string; shard: number }[]>`
    select id, shard from api_keys
    where ${isNext(tx, revocation)} and enabled and deleted_at is null and ${isLive}
    order by id limit ${atMost} for no key update`;
  const lines = await disableLockedKeys(
    tx,
    rows.map(({ id }) => id),
  );
  return { rows, changes: rows.map(({ id, shard }): Change => ({ kind: 'key', entityId: id, shard })), lines };
}

async function revokeLinkTokens(tx: Transaction, revocation: Revocation, atMost: number): Promise<Page> {
  const rows = await tx<LinkTokenRow[]>`
    update link_tokens set revoked_at = now()
    where id in (select id from link_tokens
                 where ${isNext(tx, revocation)} and revoked_at is null and ${ofLiveWorkspace(tx)} order by id limit ${atMost})
    returning ${linkTokenColumns(tx)}, true as valid`;
  const lines = rows.map((row): AuditLine => {
    const [before, after] = [row, { ...row, valid: false }].map(presentLinkToken);
    return { resource: 'link_token', id: row.id, before, after };
  });
  return { rows: byId(rows), changes: [], lines };
}

function isNext(tx: Transaction, { id, teamId, doneTo }: Revocation) {
  return tx`
    team_id = ${teamId} and id > ${doneTo}
    and created_at <= (select requested_at from revocations where id = ${id})`;
}

// `returning` has no order.
function byId<Row extends { id: string }>(rows: Row[]): Row[] {
  return rows.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}
