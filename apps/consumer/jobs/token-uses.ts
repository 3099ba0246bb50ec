import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { readTokenUses } from '../../../shared/auth/token-uses.ts';

/** Copies to Postgres when access tokens were last used. Doing it twice changes nothing. */
export async function copyTokenUses(sql: Sql, redis: ShardedRedis): Promise<void> {
  await readTokenUses(redis, async (uses) => {
    await sql`
      insert into token_last_used as known (token_id, team_id, last_used_at)
      select used.token_id, access_tokens.team_id, used.at
      from unnest(${uses.map(({ tokenId }) => tokenId)}::text[], ${uses.map(({ atMs }) => atMs)}::bigint[]) as used (token_id, at)
      join access_tokens on access_tokens.id = used.token_id
      order by used.token_id
      on conflict (token_id) do update set last_used_at = excluded.last_used_at where known.last_used_at < excluded.last_used_at`;
  });
}
