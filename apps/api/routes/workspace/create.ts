import { newId } from '../../../../shared/values/ids.ts';
import { checkLimits } from '../../../../shared/contract/limits.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import { limitsValue } from '../../resources/keys/keys.ts';
import { alertsValue } from '../../resources/billings/alerts.ts';
import { route } from '../../http/route.ts';
import {
  checkTimezone,
  presentWorkspace,
  timezoneInput,
  workspace,
  workspaceColumns,
  workspaceDefaults,
  type WorkspaceRow,
} from '../../resources/workspaces.ts';

export default route({
  method: 'post',
  path: '/api/v1/workspace',
  tag: 'Workspaces',
  operationId: 'createWorkspace',
  summary: 'Create a workspace',
  description: 'A workspace holds keys, scopes and billing records, and the defaults of its keys.',
  permission: 'workspace:write',
  status: 201,
  writes: true,
  grows: true,
  body: object({ name, ...workspaceDefaults, timezone: timezoneInput }),
  response: object({ workspace }),
  errors: ['workspace_forbidden'],

  async handle({ sql, body, caller, changed, audit }) {
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
    changed('workspace', row.id);
    audit('workspace', row.id, undefined, workspace);
    return { workspace };
  },
});
