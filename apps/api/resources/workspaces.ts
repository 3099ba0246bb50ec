import { Type } from 'typebox';
import { alerts } from '../../../shared/contract/alerts.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { limits } from '../../../shared/contract/limits.ts';
import { id, named, object, timestamp, plainText } from '../../../shared/contract/schema-kinds.ts';
import { allowedIps, name, prefix, rateLimit } from '../../../shared/contract/schemas.ts';
import { mayUse } from './access/access.ts';
import { resourceOf } from './rows.ts';

/** How the portal of a workspace looks: whose it is. */
export const branding = named(
  'Branding',
  object({
    name: Type.Optional({ ...name, maxLength: 80, description: 'who the customer buys from', examples: ['Acme'] }),
    color: Type.Optional(
      Type.String({
        pattern: '^#[0-9a-fA-F]{6}$',
        description: 'colour of the line at the top of each page',
        examples: ['#0b7285'],
      }),
    ),
    logo: Type.Optional(
      Type.String({
        maxLength: 8192,
        pattern: '^data:image/(png|svg\\+xml|webp);base64,[A-Za-z0-9+/]+={0,2}$',
        description: 'a picture (PNG, SVG, WebP) as a data URL, shown 1.5 lines high',
        examples: ['data:image/png;base64,iVBORw0KGgo='],
      }),
    ),
  }),
);

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
    defaultExpiration: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 3_155_760_000,
        description: 'lifetime of a new key in seconds',
        examples: [2_592_000],
      }),
    ),
    defaultAlerts: Type.Optional(alerts),
    keepClientAddresses: Type.Boolean({
      description:
        'whether the refusals of the last 24 hours (GET /api/v1/verifications/recent) keep the addresses of end clients',
    }),
    timezone: plainText(
      64,
      'name of the time zone (IANA) in whose days and calendar months statements are made',
      'Europe/Berlin',
    ),
    branding: Type.Optional(branding),
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when it last changed'),
  }),
);

export const workspaces = resourceOf('workspace', workspace, 'workspace_forbidden');

/** A workspace that the caller may use, or 403. `alone`: locked, also for those that make something in it, who hold the row too. */
export async function readWorkspace(
  sql: Query,
  caller: Caller,
  id: string,
  lock: { lock?: boolean; alone?: boolean } = {},
) {
  const isUsable = sql`team_id = ${caller.teamId} and deleted_at is null`;
  return workspaces.require(sql, mayUse(caller, id) ? id : '', isUsable, lock);
}
