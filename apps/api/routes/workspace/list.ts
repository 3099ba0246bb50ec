import { object } from '../../../../shared/contract/schema-kinds.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { presentWorkspace, workspace, workspaceColumns, type WorkspaceRow } from '../../resources/workspaces.ts';

export default route({
  method: 'get',
  path: '/api/v1/workspace',
  tag: 'Workspaces',
  operationId: 'listWorkspaces',
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
