import type { Query } from '../../../../shared/stores/postgres.ts';
import { linkTokens, presentLinkToken, type LinkTokenRow } from '../access/link-tokens.ts';
import { accessTokens, type TokenRow } from '../access/tokens.ts';
import type { Recorded } from '../record.ts';

/**
 * Revokes a token of the team and, with `descendants`, all that it made and that these made; the caller says so. It runs under the
 * team's lock on tokens, so none is made meanwhile, and the team's quota bounds how many there are. `below`: those that were not
 * revoked before. Below one that was revoked alone there may be others; below one that was revoked with its descendants nothing is left.
 */
export async function revokeToken(sql: Query, id: string, { descendants = true } = {}) {
  const [row] = await sql<[TokenRow]>`
    update access_tokens
    set revoked_at = coalesce(revoked_at, now()), revoked_with_descendants = revoked_with_descendants or ${descendants},
        version = version + 1, updated_at = now()
    where id = ${id}
    returning ${accessTokens.columns(sql)}`;
  return { row, below: descendants ? await revokeBelow(sql, id) : [] };
}

// As subqueries and arrays, so that Postgres never joins all tokens.
async function revokeBelow(sql: Query, id: string): Promise<TokenRow[]> {
  const rows = await sql<(TokenRow & { isNew: boolean })[]>`
    with recursive below (id) as (
      select ${id}::text
      union all
      select made.id from below cross join lateral (
        select id from access_tokens where created_by = below.id and not revoked_with_descendants offset 0) as made)
    update access_tokens
    set revoked_at = coalesce(revoked_at, now()), revoked_with_descendants = true, version = version + 1, updated_at = now()
    where id = any(array(select id from below offset 1))
    returning ${accessTokens.columns(sql)}, revoked_at = now() as is_new`;
  return rows.filter(({ isNew }) => isNew);
}

/** What to say of a token that was just revoked. */
export function revokedToken(row: TokenRow): Recorded {
  const before = accessTokens.present({ ...row, revoked: false, revokedAt: null });
  return { resource: 'access_token', id: row.id, before, after: accessTokens.present(row), shards: [row.shard] };
}

/** Revokes link tokens under a condition; gives what to say of them. */
export async function revokeLinkTokens(sql: Query, which: ReturnType<Query>): Promise<Recorded[]> {
  const rows = await sql<LinkTokenRow[]>`
    update link_tokens set revoked_at = now() where revoked_at is null and ${which} returning ${linkTokens.columns(sql)}`;
  return rows.map((row) => ({
    resource: 'link_token',
    id: row.id,
    before: presentLinkToken({ ...row, valid: true }),
    after: presentLinkToken(row),
  }));
}

/** What to say of a signing key that was just retired. */
export function retiredKey(kid: string): Recorded {
  return { resource: 'signing_key', id: kid, before: { kid } };
}
