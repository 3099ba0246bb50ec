import { Type } from 'typebox';
import { ACCESS_TOKEN_PREFIX } from '../../../../shared/auth/access-token.ts';
import { permissions, type Caller, type Permission } from '../../../../shared/contract/caller.ts';
import { exampleOf } from '../../../../shared/contract/example.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { hashKeyText, keyShard, makeKeyText, maskKeyText, randomShard } from '../../../../shared/values/key-text.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import {
  id,
  instant,
  named,
  object,
  secretText,
  timestamp,
  plainText,
} from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import { resourceOf, type Row } from '../rows.ts';

/** The addresses that a token may be used from. A list as of a key, and shorter: each program keeps it in memory. */
export const tokenAddresses = Type.Array(Type.String({ maxLength: 64, format: 'ip-or-cidr' }), {
  maxItems: 100,
  description: 'the IPv4 and IPv6 addresses and CIDR blocks that it may be used from; an empty list allows all',
  examples: [['203.0.113.0/24', '2001:db8::1']],
});

const accessTokenFields = {
  id: id('access token'),
  name,
  maskedToken: plainText(64, 'the part of the token that may be shown', 'kt_17aT****JpQ1'),
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

export type TokenRow = Row<typeof accessToken> & { shard: number };

export const accessTokens = resourceOf<typeof accessToken, { shard: number }>(
  'access_token',
  accessToken,
  'access_token_not_found',
  {
    revoked: 'revoked_at is not null',
    lastUsedAt: '(select to_timestamp(last_used_at / 1000.0) from token_last_used where token_id = access_tokens.id)',
  },
  ['shard'],
);

/**
 * The condition under which a caller sees a token: the token belongs to the caller's team. If the caller is limited to
 * workspaces, the token must be limited to some of the same workspaces.
 */
export const withinReach = (sql: Query, { teamId, workspaceIds }: Caller) => sql`
  team_id = ${teamId} ${workspaceIds ? sql`and workspace_ids <@ ${[...workspaceIds]}::text[]` : sql``}`;

type NewToken = {
  teamId: string;
  name: string;
  permissions: readonly Permission[];
  workspaceIds?: readonly string[] | undefined;
  allowedIps?: readonly string[] | undefined;
  expiresAt?: number | undefined;
  /** The token that makes it; absent: an operator does. */
  createdBy?: string;
  /** Who it stands for at the provider. */
  subject?: string;
  /** A secret that is known already, for tests alone. */
  text?: string;
};

/** Stores a new access token and returns its secret, which nothing else contains. The caller must report it as `changed`. */
export async function createToken(sql: Query, { text: given, ...token }: NewToken) {
  const text = given || makeKeyText(ACCESS_TOKEN_PREFIX, randomShard());
  const shard = keyShard(text);
  if (shard === undefined || !text.startsWith(`${ACCESS_TOKEN_PREFIX}_`))
    throw new Error('TEST_TOKEN has not the form of an access token: take one that keytally made');
  const row = await accessTokens.insert(sql, {
    ...token,
    id: newId('tok'),
    hash: hashKeyText(text),
    maskedToken: maskKeyText(text),
    shard,
    allowedIps: token.allowedIps?.length ? token.allowedIps : null,
  });
  return { text, row };
}

/** Finds a team by its name, or creates it. */
export async function findOrCreateTeam(sql: Query, name: string): Promise<string> {
  await sql`insert into teams (id, name) values (${newId('team')}, ${name}) on conflict (name) do nothing`;
  const [team] = await sql<[{ id: string }]>`select id from teams where name = ${name}`;
  return team.id;
}

/** Creates a token with every permission, as the operator hands it out. */
export async function createFullToken(sql: Query, teamId: string, text = '') {
  return createToken(sql, { teamId, name: 'operator', permissions, text });
}
