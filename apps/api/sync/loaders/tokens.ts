import { packToken } from '../../../../shared/auth/access-token.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { tombstone } from '../../../../shared/stores/records.ts';
import { batchesById } from '../batches.ts';
import { TOMBSTONE_SECONDS, type Entry, type Selection } from '../change.ts';

/** Loads access tokens. */
export async function* loadTokens(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const batches = batchesById<TokenRow>(
    (after, limit) => sql`
    select id, team_id, hash, shard, permissions, workspace_ids, expires_at, version, revoked_at is not null as revoked
    from access_tokens
    where ${'ids' in selection ? sql`id = any(${selection.ids})` : sql`shard = ${selection.shard}`} and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const tokens of batches) yield tokens.map(entryOf);
}

type TokenRow = {
  id: string;
  teamId: string;
  hash: string;
  shard: number;
  permissions: string[];
  workspaceIds: string[] | null;
  expiresAt: number | null;
  version: number;
  revoked: boolean;
};

function entryOf(token: TokenRow): Entry {
  const caller = {
    tokenId: token.id,
    teamId: token.teamId,
    permissions: new Set(token.permissions),
    workspaceIds: token.workspaceIds ?? undefined,
  };
  return {
    kind: 'token',
    id: token.id,
    shard: token.shard,
    key: keyspace.token(token.shard, token.hash),
    field: '',
    value: token.revoked ? tombstone(token.version) : packToken(token.version, caller, token.expiresAt),
    lifetimeSeconds: token.revoked ? TOMBSTONE_SECONDS : 0,
  };
}
