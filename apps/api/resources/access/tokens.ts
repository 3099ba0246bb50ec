import { Type } from 'typebox';
import { ACCESS_TOKEN_PREFIX } from '../../../../shared/auth/access-token.ts';
import { permissions, type Caller, type Permission } from '../../../../shared/contract/caller.ts';
import { exampleOf } from '../../../../shared/contract/example.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { hashKeyText, makeKeyText, maskKeyText, randomShard } from '../../../../shared/values/key-text.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { id, instant, named, object, secretText, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';

/** The addresses that a token may be used from. A list as of a key, and shorter: each program keeps it in memory. */
export const tokenAddresses = Type.Array(Type.String({ maxLength: 64, format: 'ip-or-cidr' }), {
  maxItems: 100,
  description: 'the IPv4 and IPv6 addresses and CIDR blocks that it may be used from; an empty list allows all',
  examples: [['203.0.113.0/24', '2001:db8::1']],
});

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
  allowedIPs: Type.Optional(tokenAddresses),
  expiresAt: Type.Optional(instant('when it expires')),
  createdBy: Type.Optional(id('access token', ' that made it; absent: an operator did')),
  revoked: Type.Boolean({ description: 'whether it was revoked; that is final' }),
  createdAt: timestamp('when it was made'),
};

const lastUsedAt = Type.Optional(timestamp('when it was last used; at most a minute behind'));
const revokedAt = Type.Optional(timestamp('when it was revoked'));
/** An access token as the API answers it; newAccessToken is the one answer that contains the secret. */
export const accessToken = named(
  'AccessToken',
  object(
    { ...accessTokenFields, lastUsedAt, revokedAt },
    { examples: [exampleOf(object({ ...accessTokenFields, lastUsedAt }), 'accessToken')] },
  ),
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
  allowedIps: string[] | null;
  createdBy: string | null;
  expiresAt: number | null;
  revokedAt: Date | null;
  lastUsedAt: number | null;
  createdAt: Date;
};

/** The columns of a TokenRow, for a select or a returning. */
export const tokenColumns = (sql: Query) => sql`
  id, name, masked_token, shard, permissions, workspace_ids, allowed_ips, created_by, expires_at, revoked_at, created_at,
  (select last_used_at from token_last_used where token_id = access_tokens.id) as last_used_at`;

/**
 * The condition under which a caller sees a token: the token belongs to the caller's team. If the caller is limited to
 * workspaces, the token must be limited to some of the same workspaces.
 */
export const withinReach = (sql: Query, { teamId, workspaceIds }: Caller) => sql`
  team_id = ${teamId} ${workspaceIds ? sql`and workspace_ids <@ ${[...workspaceIds]}::text[]` : sql``}`;

/** A row as the API answers it: values that are not set are left out. */
export function presentToken(row: TokenRow) {
  const { id, name, maskedToken, permissions, workspaceIds, allowedIps, createdBy, expiresAt } = row;
  const { revokedAt, lastUsedAt, createdAt } = row;
  return {
    id,
    name,
    maskedToken,
    permissions,
    ...(workspaceIds !== null && { workspaceIds }),
    ...(allowedIps !== null && { allowedIPs: allowedIps }),
    ...(expiresAt !== null && { expiresAt }),
    ...(lastUsedAt !== null && { lastUsedAt: new Date(lastUsedAt).toISOString() }),
    ...(createdBy !== null && { createdBy }),
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
  allowedIps?: readonly string[] | undefined;
  expiresAt?: number | undefined;
  /** The token that makes it; absent: an operator does. */
  createdBy?: string;
};

/** Stores a new access token and returns its secret, which nothing else contains. The caller must report it as `changed`. */
export async function createToken(sql: Query, token: NewToken) {
  const { teamId, name, permissions, workspaceIds, allowedIps, expiresAt, createdBy } = token;
  const shard = randomShard();
  const text = makeKeyText(ACCESS_TOKEN_PREFIX, shard);
  const tokenId = newId('tok');
  const [row] = await sql<[TokenRow]>`
    insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions, workspace_ids, allowed_ips,
                               expires_at, created_by)
    values (${tokenId}, ${teamId}, ${name}, ${hashKeyText(text)}, ${maskKeyText(text)}, ${shard}, ${[...permissions]},
            ${workspaceIds ? [...workspaceIds] : null}, ${allowedIps?.length ? [...allowedIps] : null}, ${expiresAt ?? null},
            ${createdBy ?? null})
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
