import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import {
  isScopeOf,
  lockScope,
  presentScope,
  scope,
  scopeColumns,
  scopeParams,
  type ScopeRow,
} from '../../resources/keys/scopes.ts';

export default route({
  method: 'delete',
  path: '/api/v1/workspace/{id}/scope/{sid}',
  tag: 'Scopes',
  operationId: 'deleteScope',
  summary: 'Delete a scope, and with it every grant of it',
  description: 'Keys lose it before the answer.',
  permission: 'workspace:write',
  writes: true,
  params: scopeParams,
  response: object({ scope }),
  errors: ['workspace_forbidden', 'scope_not_found'],

  async handle({ sql, params, caller, changed, audit }) {
    const before = await lockScope(sql, caller, params);
    // The grants stay as rows without effect: the cost does not depend on the number of keys.
    const [row] = await sql<[ScopeRow]>`
      update scopes set deleted_at = now(), version = version + 1, updated_at = now() where ${isScopeOf(sql, params)}
      returning ${scopeColumns(sql)}`;
    changed('scope', row.id);
    audit('scope', row.id, presentScope(before), undefined);
    return { scope: presentScope(row) };
  },
});
