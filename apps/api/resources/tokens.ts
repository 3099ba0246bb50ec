import { Type } from 'typebox';
import { ACCESS_TOKEN_PREFIX } from '../../../shared/auth/access-token.ts';
import { permissions, type Caller, type Permission } from '../../../shared/contract/caller.ts';
import { exampleOf } from '../../../shared/contract/example.ts';
import { newId } from '../../../shared/values/ids.ts';
import { hashKeyText, makeKeyText, maskKeyText, randomShard } from '../../../shared/values/key-text.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { id, instant, object, secretText, timestamp } from '../../../shared/contract/schema-kinds.ts';
import { name } from '../../../shared/contract/schemas.ts';

const accessTokenFields = {
  id: id('access token'),
  name,
  maskedToken: Type.String({
    maxLength: 64,
    description: 'the part of the token that may be shown',
    examples: ['kt_17aT****JpQ1'],
  }),
  permissions: Type.Array(Type.Enum([...permissions]), { maxItems: permissions.length }),
  workspaceIds: Type.Optional(
    Type.Array(id('workspace'), { maxItems: 100, description: 'the workspaces it is limited to; absent: all' }),
  ),
  expiresAt: Type.Optional(instant('when it expires')),
  revoked: Type.Boolean({ description: 'whether it was revoked; that is final' }),
  createdAt: timestamp('when it was made'),
};

const lastUsedAt = Type.Optional(timestamp('when it was last used; at most a minute behind'));
const revokedAt = Type.Optional(timestamp('when it was revoked'));
/** An access token as the API answers it; newAccessToken is the one answer that contains the secret. */
export const accessToken = object(
  { ...accessTokenFields, lastUsedAt, revokedAt },
  { examples: [exampleOf(object({ ...accessTokenFields, lastUsedAt }), 'accessToken')] },
);
export const newAccessToken = object({
  ...accessTokenFields,
  token: secretText('the secret; only this answer contains it', ACCESS_TOKEN_PREFIX),
});

export type TokenRow = {
  id: string;
  name: string;
  maskedToken: string;
  shard: number;
  permissions: Permission[];
  workspaceIds: string[] | null;
  expiresAt: number | null;
  revokedAt: Date | null;
  lastUsedAt: number | null;
  createdAt: Date;
};

/** The columns of a TokenRow, for a select or a returning. */
export const tokenColumns = (sql: Query) => sql`
  id, name, masked_token, shard, permissions, workspace_ids, expires_at, revoked_at, created_at,
  (select last_used_at from token_last_used where token_id = access_tokens.id) as last_used_at`;

/**
 * The condition under which a caller sees a token: the token belongs to the caller's team. If the caller is limited to
 * workspaces, the token must be limited to some of the same workspaces.
 */
export const withinReach = (sql: Query, { teamId, workspaceIds }: Caller) => sql`
  team_id = ${teamId} ${workspaceIds ? sql`and workspace_ids <@ ${[...workspaceIds]}::text[]` : sql``}`;

/** A row as the API answers it: values that are not set are left out. */
export function presentToken(row: TokenRow) {
  const { id, name, maskedToken, permissions, workspaceIds, expiresAt, revokedAt, lastUsedAt, createdAt } = row;
  return {
    id,
    name,
    maskedToken,
    permissions,
    ...(workspaceIds !== null && { workspaceIds }),
    ...(expiresAt !== null && { expiresAt }),
    ...(lastUsedAt !== null && { lastUsedAt: new Date(lastUsedAt).toISOString() }),
    revoked: revokedAt !== null,
    ...(revokedAt !== null && { revokedAt: revokedAt.toISOString() }),
    createdAt: createdAt.toISOString(),
  };
}

type NewToken = {
  teamId: string;
  name: string;
  permissions: readonly Permission[];
  workspaceIds?: readonly string[] | undefined;
  expiresAt?: number | undefined;
};

/** Stores a new access token and returns its secret, which nothing else contains. The caller must report it as `changed`. */
export async function createToken(sql: Query, { teamId, name, permissions, workspaceIds, expiresAt }: NewToken) {
  const shard = randomShard();
  const text = makeKeyText(ACCESS_TOKEN_PREFIX, shard);
  const tokenId = newId('tok');
  const [row] = await sql<[TokenRow]>`
    insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions, workspace_ids, expires_at)
    values (${tokenId}, ${teamId}, ${name}, ${hashKeyText(text)}, ${maskKeyText(text)}, ${shard}, ${[...permissions]},
            ${workspaceIds ? [...workspaceIds] : null}, ${expiresAt ?? null})
    returning ${tokenColumns(sql)}`;
  return { tokenId, text, shard, row };
}

/** Finds a team by its name, or creates it. */
export async function findOrCreateTeam(sql: Query, name: string): Promise<string> {
  await sql`insert into teams (id, name) values (${newId('team')}, ${name}) on conflict (name) do nothing`;
  const [team] = await sql<[{ id: string }]>`select id from teams where name = ${name}`;
  return team.id;
}

/** Creates a token with every permission, as the operator hands it out. */
export async function createFullToken(sql: Query, teamId: string) {
  return createToken(sql, { teamId, name: 'operator', permissions });
}
