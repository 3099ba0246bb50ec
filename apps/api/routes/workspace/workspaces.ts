import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { checkLimits } from '../../../../shared/contract/limits.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireWholeTeam, mayUse } from '../../resources/access/access.ts';
import { alertsValue } from '../../resources/billings/alerts.ts';
import { limitsValue } from '../../resources/keys/keys.ts';
import { set } from '../../resources/patch.ts';
import { deleteWebhooksOf } from '../../resources/webhooks.ts';
import {
  checkTimezone,
  presentWorkspace,
  timezoneInput,
  workspace,
  workspaceColumns,
  workspaceDefaults,
  lockWorkspace,
  type WorkspaceRow,
} from '../../resources/workspaces.ts';

export const createWorkspace = route('post', '/api/v1/workspace', {
  summary: 'Create a workspace',
  description: 'A workspace holds keys, scopes and billing records, and the defaults of its keys.',
  permission: 'workspace:write',
  status: 201,
  grows: true,
  body: object({ name, ...workspaceDefaults, timezone: timezoneInput }),
  response: object({ workspace }),
  errors: ['workspace_forbidden'],

  async handle({ sql, body, caller, changed }) {
    requireWholeTeam(caller);
    checkLimits('defaultLimits', body.defaultLimits);
    checkTimezone(body.timezone);
    const [row] = await sql<[WorkspaceRow]>`
      insert into workspaces (id, team_id, name, default_key_prefix, default_allowed_ips, default_rate_limit_per_second, default_limits,
                              default_expiration, default_alerts, keep_client_addresses, timezone)
      values (${newId('ws')}, ${caller.teamId}, ${body.name}, ${body.defaultKeyPrefix ?? null}, ${body.defaultAllowedIPs ?? []},
              ${body.defaultRateLimitPerSecond ?? null}, ${limitsValue(sql, body.defaultLimits) ?? null},
              ${body.defaultExpiration ?? null},
              ${alertsValue(sql, 'defaultAlerts', body.defaultAlerts) ?? null}, ${body.keepClientAddresses ?? true}, ${body.timezone ?? 'UTC'})
      returning ${workspaceColumns(sql)}`;
    const workspace = presentWorkspace(row);
    changed('workspace', row.id, { after: workspace });
    return { workspace };
  },
});

export const listWorkspaces = route('get', '/api/v1/workspace', {
  summary: 'List the workspaces that the access token may use',
  description: 'Pages follow by `cursor`, in the order in which the workspaces were made.',
  permission: 'workspace:read',
  query: object(pageParameters),
  response: object({ workspaces: pageItems(workspace), nextCursor }),

  async handle({ sql, query, caller }) {
    const read = (after: string, take: number) => sql<WorkspaceRow[]>`
      select ${workspaceColumns(sql)} from workspaces
      where team_id = ${caller.teamId} and deleted_at is null and id > ${after}
        ${caller.workspaceIds ? sql`and id = any(${[...caller.workspaceIds]})` : sql``}
      order by id limit ${take}`;
    const { items, next } = await readPage(query, `workspaces of ${caller.teamId}`, read, presentWorkspace);
    return { workspaces: items, ...next };
  },
});

export const getWorkspace = route('get', '/api/v1/workspace/{id}', {
  summary: 'Get a workspace',
  description: 'Gives the name of a workspace and the defaults of its keys.',
  permission: 'workspace:read',
  response: object({ workspace }),

  async handle({ sql, params, caller }) {
    if (!mayUse(caller, params.id)) throw new ApiError('workspace_forbidden');
    const [row] = await sql<WorkspaceRow[]>`
      select ${workspaceColumns(sql)} from workspaces where id = ${params.id} and team_id = ${caller.teamId} and deleted_at is null`;
    if (!row) throw new ApiError('workspace_forbidden');
    return { workspace: presentWorkspace(row) };
  },
});

export const updateWorkspace = route('patch', '/api/v1/workspace/{id}', {
  summary: "Change a workspace's name and the defaults of its keys and billing records",
  description:
    'Defaults hold for every key or billing record without a setting of its own. They are in force before the answer.',
  permission: 'workspace:write',
  body: object({ name: Type.Optional(name), ...workspaceDefaults, timezone: timezoneInput }),
  response: object({ workspace }),
  errors: ['quota_exceeded'],

  async handle({ sql, params, body, caller, changed }) {
    const before = await lockWorkspace(sql, caller, params.id);
    const { defaultAllowedIPs, defaultLimits, defaultAlerts, ...values } = body;
    checkLimits('defaultLimits', defaultLimits);
    checkTimezone(values.timezone);
    const allowed = defaultAllowedIPs === null ? [] : defaultAllowedIPs;
    const assigned = {
      ...values,
      defaultAllowedIps: allowed,
      defaultLimits: limitsValue(sql, defaultLimits),
      defaultAlerts: alertsValue(sql, 'defaultAlerts', defaultAlerts),
    };
    const [row] = await sql<[WorkspaceRow]>`
      update workspaces set ${set(sql, assigned)}
      where id = ${params.id} and team_id = ${caller.teamId}
      returning ${workspaceColumns(sql)}`;
    const workspace = presentWorkspace(row);
    changed('workspace', row.id, { before: presentWorkspace(before), after: workspace });
    return { workspace };
  },
});

export const deleteWorkspace = route('delete', '/api/v1/workspace/{id}', {
  summary: 'Delete a workspace for good: its keys are refused at once, its books stay readable',
  description:
    'Its keys get INVALID at once, and its webhooks are deleted. Its usage, ledger and audit log can still be read.',
  permission: 'workspace:write',
  response: object({ workspace }),

  async handle({ sql, params, caller, changed }) {
    const before = await lockWorkspace(sql, caller, params.id, { alone: true });
    // One record in each shard refuses all keys of the workspace. remove-deleted.ts then removes what Redis has of them.
    const [row] = await sql<[WorkspaceRow]>`
      update workspaces set deleted_at = now(), version = version + 1, updated_at = now()
      where id = ${params.id} and team_id = ${caller.teamId}
      returning ${workspaceColumns(sql)}`;
    changed('workspace', row.id, { before: presentWorkspace(before) });
    await deleteWebhooksOf(sql, changed, row.id);
    return { workspace: presentWorkspace(row) };
  },
});
