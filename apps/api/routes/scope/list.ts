import { Type } from 'typebox';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { route } from '../../http/route.ts';
import { MAX_SCOPES, presentScope, scope, scopeColumns, type ScopeRow } from '../../resources/keys/scopes.ts';

export default route({
  method: 'get',
  path: '/api/v1/workspace/{id}/scopes',
  tag: 'Scopes',
  operationId: 'listScopes',
  summary: 'List all scopes of a workspace',
  description: 'The answer has them all: it has no pages.',
  permission: 'workspace:read',
  params: object({ id: id('workspace') }),
  response: object({ scopes: Type.Array(scope, { maxItems: MAX_SCOPES }) }),
  errors: ['workspace_forbidden'],

  async handle({ sql, params, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const rows = await sql<ScopeRow[]>`
      select ${scopeColumns(sql)} from scopes where workspace_id = ${params.id} and deleted_at is null order by id`;
    return { scopes: rows.map(presentScope) };
  },
});
