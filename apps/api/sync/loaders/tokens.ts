import { packToken } from '../../../../shared/auth/access-token.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { tombstone } from '../../../../shared/stores/records.ts';
import { batchesById } from '../batches.ts';
import { TOMBSTONE_SECONDS, type Entry, type Selection } from '../change.ts';

/** Loads access tokens. One that expires leaves Redis a day later; then it is unknown, which answers the same error. */
export async function* loadTokens(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const batches = batchesById<TokenRow>(
    (after, limit) => sql`
    select id, team_id, hash, shard, permissions, workspace_ids, allowed_ips, expires_at, version, is_revoked(t) as revoked,
           (select (limits ->> 'verify_per_second')::int from team_quotas q where q.team_id = t.team_id) as team_per_second,
           ceil((expires_at - extract(epoch from now()) * 1000) / 1000)::bigint + ${TOMBSTONE_SECONDS} as lifetime_seconds
    from access_tokens t
    where ${'ids' in selection ? sql`id = any(${selection.ids})` : isLiveIn(sql, selection.shard)} and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const tokens of batches) yield tokens.map(entryOf);
}

function isLiveIn(sql: Query, shard: number) {
  return sql`
    shard = ${shard} and revoked_at is null
    and (expires_at is null or expires_at > extract(epoch from now()) * 1000 - ${TOMBSTONE_SECONDS * 1000})`;
}

type TokenRow = {
  id: string;
  teamId: string;
  hash: string;
  shard: number;
  permissions: string[];
  workspaceIds: string[] | null;
  allowedIps: string[] | null;
  expiresAt: number | null;
  version: number;
  revoked: boolean;
  teamPerSecond: number | null;
  /** Null: it never expires. */
  lifetimeSeconds: number | null;
};

function entryOf(token: TokenRow): Entry {
  const gone = token.revoked || (token.lifetimeSeconds !== null && token.lifetimeSeconds <= 0);
  return {
    kind: 'token',
    id: token.id,
    shard: token.shard,
    key: keyspace.token(token.shard, token.hash),
    field: '',
    value: gone ? tombstone(token.version) : packToken(token.version, { ...token, tokenId: token.id }),
    lifetimeSeconds: gone ? TOMBSTONE_SECONDS : (token.lifetimeSeconds ?? 0),
  };
}
