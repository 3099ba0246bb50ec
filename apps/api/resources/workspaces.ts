import { Type } from 'typebox';
import { alerts } from '../../../shared/contract/alerts.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import { invalidField } from '../../../shared/contract/errors.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { limits } from '../../../shared/contract/limits.ts';
import { id, nullable, named, object, timestamp, plainText } from '../../../shared/contract/schema-kinds.ts';
import { allowedIps, name, prefix, rateLimit } from '../../../shared/contract/schemas.ts';
import { isTimezone } from '../../../shared/values/calendar.ts';
import { mayUse } from './access/access.ts';
import { resourceOf, type Row } from './rows.ts';

export const expirationSeconds = Type.Integer({
  minimum: 1,
  maximum: 3_155_760_000,
  description: 'lifetime of a new key in seconds',
  examples: [2_592_000],
});

const timezone = (more = '') =>
  plainText(
    64,
    `name of the time zone (IANA) in whose days and calendar months statements are made${more}`,
    'Europe/Berlin',
  );

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

export type WorkspaceRow = Row<typeof workspace>;

export const workspaces = resourceOf('workspaces', workspace, 'workspace_forbidden', {
  defaultAllowedIPs: 'default_allowed_ips',
});

/** A workspace that the caller may use, or 403. `alone`: locked, also for those that make something in it, who hold the row too. */
export async function readWorkspace(
  sql: Query,
  caller: Caller,
  id: string,
  lock: { lock?: boolean; alone?: boolean } = {},
): Promise<WorkspaceRow> {
  const isUsable = sql`team_id = ${caller.teamId} and deleted_at is null`;
  return workspaces.require(sql, mayUse(caller, id) ? id : '', isUsable, lock);
}

/** Throws 400 for a text that names no time zone. */
export function checkTimezone(zone: string | undefined): void {
  if (zone === undefined || isTimezone(zone)) return;
  throw invalidField('/timezone', 'must be the IANA name of a time zone, such as Europe/Berlin');
}
