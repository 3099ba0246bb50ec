import { ApiError } from '../../../../shared/contract/errors.ts';
import { violates } from '../../../../shared/stores/postgres.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { set } from '../../resources/patch.ts';
import { route } from '../../http/route.ts';
import {
  isScopeOf,
  lockScope,
  presentScope,
  refuseGranted,
  scope,
  scopeChange,
  scopeColumns,
  scopeParams,
  type ScopeRow,
} from '../../resources/keys/scopes.ts';

export default route({
  method: 'patch',
  path: '/api/v1/workspace/{id}/scope/{sid}',
  tag: 'Scopes',
  operationId: 'updateScope',
  summary: 'Change a scope; its representation only while no key has it',
  description: 'Its name and description can always change.',
  permission: 'workspace:write',
  writes: true,
  params: scopeParams,
  body: scopeChange,
  response: object({ scope }),
  errors: ['workspace_forbidden', 'scope_not_found', 'representation_taken', 'scope_granted', 'quota_exceeded'],

  async handle({ sql, params, body, caller, changed, audit }) {
    const before = await lockScope(sql, caller, params, { alone: body.representation !== undefined });
    if (body.representation !== undefined && body.representation !== before.representation)
      await refuseGranted(sql, before.id);
    const [row] = await sql<[ScopeRow]>`
      update scopes set ${set(sql, body)} where ${isScopeOf(sql, params)}
      returning ${scopeColumns(sql)}`.catch((error: unknown) => {
      throw violates(error, 'scopes_representation') ? new ApiError('representation_taken') : error;
    });
    const scope = presentScope(row);
    changed('scope', row.id);
    audit('scope', row.id, presentScope(before), scope);
    return { scope };
  },
});
