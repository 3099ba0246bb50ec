import { Type } from 'typebox';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import { set } from '../../resources/patch.ts';
import { route } from '../../http/route.ts';
import {
  lockWorkspace,
  presentWorkspace,
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
  summary: "Change a workspace's name and the defaults of its keys",
  description: 'Defaults hold for every key without a setting of its own. They are in force before the answer.',
  permission: 'workspace:write',
  writes: true,
  params: object({ id: id('workspace') }),
  body: object({ name: Type.Optional(name), ...workspaceDefaults }),
  response: object({ workspace }),
  errors: ['workspace_forbidden', 'quota_exceeded'],

  async handle({ sql, params, body, caller, changed, audit }) {
    const before = await lockWorkspace(sql, caller, params.id);
    const { defaultAllowedIPs, ...values } = body;
    const [row] = await sql<[WorkspaceRow]>`
      update workspaces set ${set(sql, { ...values, defaultAllowedIps: defaultAllowedIPs === null ? [] : defaultAllowedIPs })}
      where id = ${params.id} and team_id = ${caller.teamId}
      returning ${workspaceColumns(sql)}`;
    const workspace = presentWorkspace(row);
    changed('workspace', row.id);
    audit('workspace', row.id, presentWorkspace(before), workspace);
    return { workspace };
  },
});
