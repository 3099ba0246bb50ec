import { Type } from 'typebox';
import { checkLimits } from '../../../../shared/contract/limits.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import { limitsValue } from '../../resources/keys/keys.ts';
import { alertsValue } from '../../resources/billings/alerts.ts';
import { set } from '../../resources/patch.ts';
import { route } from '../../http/route.ts';
import {
  checkTimezone,
  lockWorkspace,
  presentWorkspace,
  timezoneInput,
  workspace,
  workspaceColumns,
  workspaceDefaults,
  type WorkspaceRow,
} from '../../resources/workspaces.ts';

export default route({
  method: 'patch',
  path: '/api/v1/workspace/{id}',
  tag: 'Workspaces',
  operationId: 'updateWorkspace',
  summary: "Change a workspace's name and the defaults of its keys and billing records",
  description:
    'Defaults hold for every key or billing record without a setting of its own. They are in force before the answer.',
  permission: 'workspace:write',
  writes: true,
  params: object({ id: id('workspace') }),
  body: object({ name: Type.Optional(name), ...workspaceDefaults, timezone: timezoneInput }),
  response: object({ workspace }),
  errors: ['workspace_forbidden', 'quota_exceeded'],

  async handle({ sql, params, body, caller, changed, audit }) {
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
    changed('workspace', row.id);
    audit('workspace', row.id, presentWorkspace(before), workspace);
    return { workspace };
  },
});
