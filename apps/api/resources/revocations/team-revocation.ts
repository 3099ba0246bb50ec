import type { Sql, Transaction } from '../../../../shared/stores/postgres.ts';
import { lockTeamTokens } from '../access/access.ts';
import type { AuditOrigin } from '../audit.ts';
import { disableLockedKeys } from '../keys/keys.ts';
import { linkTokenColumns, ofLiveWorkspace, type LinkTokenRow } from '../access/link-tokens.ts';
import { retireAll } from '../jwts/signing-keys.ts';
import { storeRecorded, type Recorded } from '../record.ts';
import { retiredKey, revokedLink, revokedToken } from './revocations.ts';
import { tokenColumns, type TokenRow } from '../access/tokens.ts';

// Everything that a team has given out, revoked: access tokens, link tokens, signing keys, API keys. The first transaction
// ends what can be ended at once; the pages of the rest are work in the table `revocations`.

/** A row of the table `revocations`. */
export type Revocation = AuditOrigin & { id: number; step: RevocationStep; doneTo: string };
type RevocationStep = 'tokens' | 'link_tokens' | 'keys';

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
      select requested_at as since from revocations where team_id = ${teamId}`;
    const [begun] = await tx<[{ id: number }]>`
      insert into revocations (team_id, operation) values (${teamId}, ${operation})
      on conflict (team_id) do update
        set step = excluded.step, done_to = excluded.done_to, requested_at = excluded.requested_at, worked_at = excluded.worked_at
      returning id`;
    // From the row, not from here: a date in JavaScript has no microseconds.
    await tx`
      update teams set tokens_revoked_at = (select requested_at from revocations where id = ${begun.id})
      where id = ${teamId}`;
    const kids = await retireAll(tx, teamId);
    const recorded = [...kids.map(retiredKey), ...(await disableWebhooks(tx, teamId))];
    await storeRecorded(tx, { teamId, tokenId: null, operation, requestId: null }, recorded);
    return { id: begun.id, since: known?.since, signingKeys: kids.length };
  });
}

/** A stolen token may have made some, which tell a stranger what happens. A team has a few. */
async function disableWebhooks(tx: Transaction, teamId: string): Promise<Recorded[]> {
  const rows = await tx<{ id: string }[]>`
    update webhooks set enabled = false, disabled_reason = 'REQUESTED', disabled_at = now(), updated_at = now()
    where team_id = ${teamId} and enabled and deleted_at is null returning id`;
  const after = { enabled: false, disabledReason: 'REQUESTED' };
  return rows.map(({ id }) => ({ resource: 'webhook', id, before: { enabled: true }, after }));
}

/** Revokes the next page of what a team had when its revocation was requested. */
export async function nextOfTeam(tx: Transaction, revocation: Revocation, atMost: number): Promise<Recorded[]> {
  const { id, step } = revocation;
  const { revoke, next } = steps[step];
  const page = await revoke(tx, revocation, atMost);
  const last = page.map((one) => one.id).toSorted()[atMost - 1];
  if (last !== undefined) await tx`update revocations set done_to = ${last} where id = ${id}`;
  else if (next) await tx`update revocations set step = ${next}, done_to = '' where id = ${id}`;
  else await tx`delete from revocations where id = ${id}`;
  return page;
}

type Step = {
  revoke(tx: Transaction, revocation: Revocation, atMost: number): Promise<Recorded[]>;
  next: RevocationStep | undefined;
};

// What can do the most harm comes first.
const steps: Record<RevocationStep, Step> = {
  tokens: { revoke: revokeTokens, next: 'keys' },
  keys: { revoke: disableKeys, next: 'link_tokens' },
  link_tokens: { revoke: revokeLinkTokens, next: undefined },
};

async function revokeTokens(tx: Transaction, revocation: Revocation, atMost: number): Promise<Recorded[]> {
  const rows = await tx<TokenRow[]>`
    update access_tokens set revoked_at = now(), version = version + 1, updated_at = now()
    where id in (select id from access_tokens where ${isNext(tx, revocation)} and revoked_at is null order by id limit ${atMost})
    returning ${tokenColumns(tx)}`;
  return rows.map(revokedToken);
}

async function disableKeys(tx: Transaction, revocation: Revocation, atMost: number): Promise<Recorded[]> {
  const isLive = tx`exists (select from workspaces w where w.id = api_keys.workspace_id and w.deleted_at is null)`;
  const rows = await tx<{ id: string }[]>`
    select id from api_keys
    where ${isNext(tx, revocation)} and enabled and deleted_at is null and ${isLive}
    order by id limit ${atMost} for no key update`;
  return disableLockedKeys(
    tx,
    rows.map(({ id }) => id),
  );
}

async function revokeLinkTokens(tx: Transaction, revocation: Revocation, atMost: number): Promise<Recorded[]> {
  const rows = await tx<LinkTokenRow[]>`
    update link_tokens set revoked_at = now()
    where id in (select id from link_tokens
                 where ${isNext(tx, revocation)} and revoked_at is null and ${ofLiveWorkspace(tx)} order by id limit ${atMost})
    returning ${linkTokenColumns(tx)}, true as valid`;
  return rows.map(revokedLink);
}

function isNext(tx: Transaction, { id, teamId, doneTo }: Revocation) {
  return tx`
    team_id = ${teamId} and id > ${doneTo}
    and created_at <= (select requested_at from revocations where id = ${id})`;
}
