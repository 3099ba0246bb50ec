import { Type } from 'typebox';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { id, nullable, named, object, timestamp } from '../../../shared/contract/schema-kinds.ts';
import { allowedIps, name, prefix, rateLimit } from '../../../shared/contract/schemas.ts';
import { mayUse } from './access.ts';

export const expirationSeconds = Type.Integer({
  minimum: 1,
  maximum: 3_155_760_000,
  description: 'lifetime of a new key in seconds',
  examples: [2_592_000],
});

/** A workspace as the API answers it (section 2 of the specification). */
export const workspace = named(
  'Workspace',
  object({
    id: id('workspace'),
    name,
    teamId: id('team'),
    defaultKeyPrefix: Type.Optional(prefix),
    defaultAllowedIPs: allowedIps,
    defaultRateLimitPerSecond: Type.Optional(rateLimit),
    defaultExpiration: Type.Optional(expirationSeconds),
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when it last changed'),
  }),
);

/** The defaults of a workspace's keys; in a PATCH, `null` clears one. */
export const workspaceDefaults = {
  defaultKeyPrefix: Type.Optional(nullable(prefix)),
  defaultAllowedIPs: Type.Optional(nullable(allowedIps)),
  defaultRateLimitPerSecond: Type.Optional(nullable(rateLimit)),
  defaultExpiration: Type.Optional(nullable(expirationSeconds)),
};

export type WorkspaceRow = {
  id: string;
  name: string;
  teamId: string;
  defaultKeyPrefix: string | null;
  defaultAllowedIps: string[];
  defaultRateLimitPerSecond: number | null;
  defaultExpiration: number | null;
  createdAt: Date;
  updatedAt: Date;
};

/** The columns of a WorkspaceRow, for a select or a returning. */
export const workspaceColumns = (sql: Query) => sql`
  id, name, team_id, default_key_prefix, default_allowed_ips, default_rate_limit_per_second, default_expiration,
  created_at, updated_at`;

/** Locks a workspace's row; throws 403. `alone`: waits for those that make something in it, who hold the row too. */
export async function lockWorkspace(
  sql: Query,
  caller: Caller,
  workspaceId: string,
  { alone = false } = {},
): Promise<WorkspaceRow> {
  const [row] = mayUse(caller, workspaceId)
    ? await sql<WorkspaceRow[]>`
        select ${workspaceColumns(sql)} from workspaces
        where id = ${workspaceId} and team_id = ${caller.teamId} and deleted_at is null
        ${alone ? sql`for update` : sql`for no key update`}`
    : [];
  if (!row) throw new ApiError('workspace_forbidden');
  return row;
}

/** A row as the API answers it: values that are not set are left out. */
export function presentWorkspace(row: WorkspaceRow) {
  const { defaultKeyPrefix, defaultRateLimitPerSecond, defaultExpiration } = row;
  return {
    id: row.id,
    name: row.name,
    teamId: row.teamId,
    ...(defaultKeyPrefix !== null && { defaultKeyPrefix }),
    defaultAllowedIPs: row.defaultAllowedIps,
    ...(defaultRateLimitPerSecond !== null && { defaultRateLimitPerSecond }),
    ...(defaultExpiration !== null && { defaultExpiration }),
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
  };
}
