import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { lockJwtSettings } from './settings.ts';

/** Most JWTs of a team that are revoked and not expired yet. Beyond it, a rotation with `retireNow` ends them all. */
export const MAX_REVOCATIONS = 10_000;

// A revocation removes some expired ones of its team, so that they never outnumber those in force by much.
const REMOVED_AT_ONCE = 10;

/**
 * Revokes a JWT of a team, in a transaction, until it expires; where that is not known, until no JWT can be in force that
 * the team has signed so far. A JWT that is revoked already stays so. Gives until when, and whether it is new.
 */
export async function storeRevokedJwt(
  sql: Query,
  teamId: string,
  jti: string,
  expiresAt: Date | undefined,
): Promise<{ expiresAt: Date; isNew: boolean }> {
  await lockJwtSettings(sql, teamId);
  const [known] = await sql<{ expiresAt: Date }[]>`
    select expires_at from revoked_jwts where team_id = ${teamId} and jti = ${jti} and expires_at > now()`;
  if (known) return { ...known, isNew: false };
  await sql`
    delete from revoked_jwts where ctid in (
      select ctid from revoked_jwts where team_id = ${teamId} and expires_at <= now() limit ${REMOVED_AT_ONCE})`;
  const [row] = await sql<{ expiresAt: Date }[]>`
    insert into revoked_jwts as known (team_id, jti, expires_at)
    select ${teamId}, ${jti}, coalesce(${expiresAt ?? null}::timestamptz, ${longestInForce(sql, teamId)})
    where (select count(*) from (
             select from revoked_jwts where team_id = ${teamId} and expires_at > now() limit ${MAX_REVOCATIONS}) as live)
          < ${MAX_REVOCATIONS}
    on conflict (team_id, jti) do update set expires_at = excluded.expires_at, created_at = now()
    returning expires_at`;
  if (!row) throw new ApiError('revocation_limit_reached');
  return { ...row, isNew: true };
}

// When the last JWT ends that the team has signed so far. 300 s more: see published_until in sql/postgres.
function longestInForce(sql: Query, teamId: string) {
  return sql`
    coalesce((select max(case when retired_at is null then now() + make_interval(secs => longest_seconds + 300)
                              when retired_at < 'infinity' then published_until end)
              from signing_keys where team_id = ${teamId} and published_until > now()),
             now() + interval '300 seconds')`;
}
