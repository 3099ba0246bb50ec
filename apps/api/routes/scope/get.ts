import { ApiError } from '../../../../shared/contract/errors.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { route } from '../../http/route.ts';
import {
  isScopeOf,
  presentScope,
  scope,
  scopeColumns,
  scopeParams,
  type ScopeRow,
} from '../../resources/keys/scopes.ts';

export default route({
  method: 'get',
  path: '/api/v1/workspace/{id}/scope/{sid}',
  tag: 'Scopes',
  operationId: 'getScope',
  summary: 'Get a scope',
  description: 'Gives what a scope stands for, its name and its description.',
  permission: 'workspace:read',
  params: scopeParams,
  response: object({ scope }),
  errors: ['workspace_forbidden', 'scope_not_found'],

  async handle({ sql, params, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const [row] = await sql<ScopeRow[]>`select ${scopeColumns(sql)} from scopes where ${isScopeOf(sql, params)}`;
    if (!row) throw new ApiError('scope_not_found');
    return { scope: presentScope(row) };
  },
});
