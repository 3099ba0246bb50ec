import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { deleteWebhooksOf } from '../../resources/webhooks.ts';
import {
  lockWorkspace,
  presentWorkspace,
  workspace,
  workspaceColumns,
  type WorkspaceRow,
} from '../../resources/workspaces.ts';

export default route({
  method: 'delete',
  path: '/api/v1/workspace/{id}',
  tag: 'Workspaces',
  operationId: 'deleteWorkspace',
  summary: 'Delete a workspace for good: its keys are refused at once, its books stay readable',
  description:
    'Its keys get INVALID at once, and its webhooks are deleted. Its usage, ledger and audit log can still be read.',
  permission: 'workspace:write',
  writes: true,
  params: object({ id: id('workspace') }),
  response: object({ workspace }),
  errors: ['workspace_forbidden'],

  async handle({ sql, params, caller, changed, audit }) {
    const before = await lockWorkspace(sql, caller, params.id, { alone: true });
    // One record in each shard refuses all keys of the workspace. remove-deleted.ts then removes what Redis has of them.
    const [row] = await sql<[WorkspaceRow]>`
      update workspaces set deleted_at = now(), version = version + 1, updated_at = now()
      where id = ${params.id} and team_id = ${caller.teamId}
      returning ${workspaceColumns(sql)}`;
    changed('workspace', row.id);
    audit('workspace', row.id, presentWorkspace(before), undefined);
    await deleteWebhooksOf(sql, audit, row.id);
    return { workspace: presentWorkspace(row) };
  },
});
