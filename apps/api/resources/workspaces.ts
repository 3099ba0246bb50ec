import { Type } from 'typebox';
import { alerts, type Alert } from '../../../shared/contract/alerts.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError, invalidField } from '../../../shared/contract/errors.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { limits, type Limit } from '../../../shared/contract/limits.ts';
import { id, nullable, named, object, timestamp } from '../../../shared/contract/schema-kinds.ts';
import { allowedIps, name, prefix, rateLimit } from '../../../shared/contract/schemas.ts';
import { isTimezone } from '../../../shared/values/calendar.ts';
import { mayUse } from './access/access.ts';

export const expirationSeconds = Type.Integer({
  minimum: 1,
  maximum: 3_155_760_000,
  description: 'lifetime of a new key in seconds',
  examples: [2_592_000],
});

const timezone = (more = '') =>
  Type.String({
    maxLength: 64,
    description: `name of the time zone (IANA) in whose days and calendar months statements are made${more}`,
    examples: ['Europe/Berlin'],
  });

const keepClientAddresses = Type.Boolean({
  description:
    'whether the refusals of the last 24 hours (GET /api/v1/verifications/recent) keep the addresses of end clients',
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
    defaultLimits: Type.Optional(limits),
    defaultExpiration: Type.Optional(expirationSeconds),
    defaultAlerts: Type.Optional(alerts),
    keepClientAddresses,
    timezone: timezone(),
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when it last changed'),
  }),
);

/** The defaults of a workspace's keys and billing records, and what it keeps of its calls; in a PATCH, `null` clears one. */
export const workspaceDefaults = {
  defaultKeyPrefix: Type.Optional(nullable(prefix)),
  defaultAllowedIPs: Type.Optional(nullable(allowedIps)),
  defaultRateLimitPerSecond: Type.Optional(nullable(rateLimit)),
  defaultLimits: Type.Optional(nullable(limits)),
  defaultExpiration: Type.Optional(nullable(expirationSeconds)),
  defaultAlerts: Type.Optional(nullable(alerts)),
  keepClientAddresses: Type.Optional(keepClientAddresses),
};

/** The time zone of a workspace, in a request. */
export const timezoneInput = Type.Optional(timezone('; of a new workspace default UTC'));

export type WorkspaceRow = {
  id: string;
  name: string;
  teamId: string;
  defaultKeyPrefix: string | null;
  defaultAllowedIps: string[];
  defaultRateLimitPerSecond: number | null;
  defaultLimits: Limit[] | null;
  defaultExpiration: number | null;
  defaultAlerts: Alert[] | null;
  keepClientAddresses: boolean;
  timezone: string;
  createdAt: Date;
  updatedAt: Date;
};

/** The columns of a WorkspaceRow, for a select or a returning. */
export const workspaceColumns = (sql: Query) => sql`
  id, name, team_id, default_key_prefix, default_allowed_ips, default_rate_limit_per_second, default_limits, default_expiration,
  default_alerts, keep_client_addresses, timezone, created_at, updated_at`;

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

/** Throws 400 for a text that names no time zone. */
export function checkTimezone(zone: string | undefined): void {
  if (zone === undefined || isTimezone(zone)) return;
  throw invalidField('/timezone', 'must be the IANA name of a time zone, such as Europe/Berlin');
}

/** A row as the API answers it: values that are not set are left out. */
export function presentWorkspace(row: WorkspaceRow) {
  const { defaultKeyPrefix, defaultRateLimitPerSecond, defaultLimits, defaultExpiration, defaultAlerts } = row;
  return {
    id: row.id,
    name: row.name,
    teamId: row.teamId,
    ...(defaultKeyPrefix !== null && { defaultKeyPrefix }),
    defaultAllowedIPs: row.defaultAllowedIps,
    ...(defaultRateLimitPerSecond !== null && { defaultRateLimitPerSecond }),
    ...(defaultLimits !== null && { defaultLimits }),
    ...(defaultExpiration !== null && { defaultExpiration }),
    ...(defaultAlerts && { defaultAlerts }),
    keepClientAddresses: row.keepClientAddresses,
    timezone: row.timezone,
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
  };
}
