import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { mayUse } from '../../resources/access/access.ts';
import { route } from '../../http/route.ts';
import { presentWorkspace, workspace, workspaceColumns, type WorkspaceRow } from '../../resources/workspaces.ts';

export default route({
  method: 'get',
  path: '/api/v1/workspace/{id}',
  tag: 'Workspaces',
  operationId: 'getWorkspace',
  summary: 'Get a workspace',
  description: 'Gives the name of a workspace and the defaults of its keys.',
  permission: 'workspace:read',
  params: object({ id: id('workspace') }),
  response: object({ workspace }),
  errors: ['workspace_forbidden'],

  async handle({ sql, params, caller }) {
    if (!mayUse(caller, params.id)) throw new ApiError('workspace_forbidden');
    const [row] = await sql<WorkspaceRow[]>`
      select ${workspaceColumns(sql)} from workspaces where id = ${params.id} and team_id = ${caller.teamId} and deleted_at is null`;
    if (!row) throw new ApiError('workspace_forbidden');
    return { workspace: presentWorkspace(row) };
  },
});
