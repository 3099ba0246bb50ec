import { newId } from '../../../../shared/values/ids.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import { requireWholeTeam } from '../../resources/access.ts';
import { route } from '../../http/route.ts';
import {
  presentWorkspace,
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
  body: object({ name, ...workspaceDefaults }),
  response: object({ workspace }),
  errors: ['workspace_forbidden'],

  async handle({ sql, body, caller, changed, audit }) {
    requireWholeTeam(caller);
    const [row] = await sql<[WorkspaceRow]>`
      insert into workspaces (id, team_id, name, default_key_prefix, default_allowed_ips, default_rate_limit_per_second, default_expiration)
      values (${newId('ws')}, ${caller.teamId}, ${body.name}, ${body.defaultKeyPrefix ?? null}, ${body.defaultAllowedIPs ?? []},
              ${body.defaultRateLimitPerSecond ?? null}, ${body.defaultExpiration ?? null})
      returning ${workspaceColumns(sql)}`;
    const workspace = presentWorkspace(row);
    changed('workspace', row.id);
    audit('workspace', row.id, undefined, workspace);
    return { workspace };
  },
});
