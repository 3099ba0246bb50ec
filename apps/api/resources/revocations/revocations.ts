import type { Query } from '../../../../shared/stores/postgres.ts';
import type { AuditOrigin } from '../audit.ts';
import type { Recorded } from '../record.ts';
import { presentLinkToken, type LinkTokenRow } from '../access/link-tokens.ts';
import { presentToken, tokenColumns, type TokenRow } from '../access/tokens.ts';

// A token is revoked with all that it made. The first of these are revoked in the same transaction; the rest is work in the
// table `revocations`, which job.ts does. Until a token's turn comes, is_revoked() of Postgres finds its line.
// All this runs under the team's lock on tokens, so no token is made meanwhile.

const REVOKED_AT_ONCE = 500;
const MAKERS_AT_ONCE = 50;

/** A row of the table `revocations`. */
export type Revocation = AuditOrigin & { id: number; rootId: string | null; step: RevocationStep; doneTo: string };
export type RevocationStep = 'tokens' | 'link_tokens' | 'keys';

/** A token that was revoked, those below it that were too, and whether others of the team are still to come. */
export type Revoked = { row: TokenRow; below: TokenRow[]; pending: boolean };

/** Revokes a token of the team, and at most so many below it at once; the caller says so. */
export async function revokeToken(
  sql: Query,
  id: string,
  origin: AuditOrigin,
  { descendants = true, atMost = REVOKED_AT_ONCE } = {},
): Promise<Revoked> {
  const [row] = await sql<[TokenRow]>`
    update access_tokens set revoked_at = coalesce(revoked_at, now()), version = version + 1, updated_at = now()
    where id = ${id}
    returning ${tokenColumns(sql)}`;
  const below = descendants ? await revokeBelow(sql, id, origin, atMost) : [];
  const [{ pending }] = await sql<[{ pending: boolean }]>`
    select exists (select from revocations where team_id = ${origin.teamId} and token_id is not null) as pending`;
  return { row, below, pending };
}

/** What to say of a token that was just revoked. */
export function revokedToken(row: TokenRow): Recorded {
  const before = presentToken({ ...row, revokedAt: null });
  return { resource: 'access_token', id: row.id, before, after: presentToken(row), shards: [row.shard] };
}

/** What to say of a link token that was just revoked. */
export function revokedLink(row: LinkTokenRow): Recorded {
  const [before, after] = [true, false].map((valid) => presentLinkToken({ ...row, valid }));
  return { resource: 'link_token', id: row.id, before, after };
}

/** What to say of a signing key that was just retired. */
export function retiredKey(kid: string): Recorded {
  return { resource: 'signing_key', id: kid, before: { kid } };
}

/**
 * Revokes at most so many tokens below those that a revocation has reached, in few statements, however long or broad the lines
 * are. `done`: there are no others.
 */
export async function revokeNextBelow(
  sql: Query,
  revocationId: number,
  atMost: number,
): Promise<{ rows: TokenRow[]; done: boolean }> {
  const rows: TokenRow[] = [];
  for (let left = atMost; left > 0;) {
    const makers = await sql<{ id: string }[]>`
      select id from access_tokens where revocation_id = ${revocationId} limit ${MAKERS_AT_ONCE}`;
    if (makers.length === 0) return { rows, done: true };
    const ids = makers.map((maker) => maker.id);
    const found = await revokeSomeBelow(sql, ids, revocationId, left);
    rows.push(...found.filter(({ isNew }) => isNew));
    // Who has made nothing else is done with.
    await sql`
      update access_tokens t set revocation_id = null
      where id = any(${[...ids, ...found.map(({ id }) => id)]})
        and (select c.id from access_tokens c where c.created_by = t.id and not c.revoked_with_descendants limit 1) is null`;
    left -= found.length;
  }
  return { rows, done: false };
}

// Also those that were revoked alone before: what they made lies below this token too. The makers come first in `below`, and
// Postgres looks for no more of it than `found` takes. As subqueries with a limit and arrays, so that it never joins all tokens.
function revokeSomeBelow(sql: Query, makers: string[], revocationId: number, atMost: number) {
  return sql<(TokenRow & { isNew: boolean })[]>`
    with recursive below (id) as (
      select unnest(${makers}::text[])
      union all
      select made.id from below cross join lateral (
        select id from access_tokens where created_by = below.id and not revoked_with_descendants limit ${atMost}) as made),
    found as (select id from below offset ${makers.length} limit ${atMost})
    update access_tokens
    set revoked_at = coalesce(revoked_at, now()), revoked_with_descendants = true, revocation_id = ${revocationId},
        version = version + 1, updated_at = now()
    where id = any(array(select id from found))
    returning ${tokenColumns(sql)}, revoked_at = now() as is_new`;
}

async function revokeBelow(sql: Query, id: string, origin: AuditOrigin, atMost: number): Promise<TokenRow[]> {
  const { teamId, tokenId, operation, requestId } = origin;
  const marked = await sql`
    update access_tokens set revoked_with_descendants = true where id = ${id} and not revoked_with_descendants returning true`;
  if (marked.length === 0) return [];
  const [revocation] = await sql<[{ id: number }]>`
    insert into revocations (team_id, token_id, revoked_by, operation, request_id)
    values (${teamId}, ${id}, ${tokenId}, ${operation}, ${requestId})
    returning id`;
  await sql`update access_tokens set revocation_id = ${revocation.id} where id = ${id}`;
  const { rows, done } = await revokeNextBelow(sql, revocation.id, atMost);
  if (done) await sql`delete from revocations where id = ${revocation.id}`;
  return rows;
}
