import { ApiError } from '../../../../shared/contract/errors.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { violates } from '../../../../shared/stores/postgres.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { route } from '../../http/route.ts';
import { MAX_SCOPES, newScope, presentScope, scope, scopeColumns, type ScopeRow } from '../../resources/keys/scopes.ts';

export default route({
  method: 'post',
  path: '/api/v1/workspace/{id}/scope',
  tag: 'Scopes',
  operationId: 'createScope',
  summary: 'Create a scope in a workspace',
  description:
    'A scope is what keys can be granted: its representation, with flags for create, read, update and delete.',
  permission: 'workspace:write',
  status: 201,
  writes: true,
  grows: true,
  params: object({ id: id('workspace') }),
  body: newScope,
  response: object({ scope }),
  errors: ['workspace_forbidden', 'representation_taken', 'scope_limit_reached'],

  async handle({ sql, params, body, caller, changed, audit }) {
    await requireWorkspace(sql, caller, params.id, { hold: true });
    // Locks the workspace's row: its scopes are created one after the other, and the count below is exact.
    const [{ ref }] = await sql<[{ ref: number }]>`
      update workspaces set last_scope_ref = last_scope_ref + 1 where id = ${params.id} returning last_scope_ref as ref`;
    const [row] = await sql<ScopeRow[]>`
      insert into scopes (id, team_id, workspace_id, ref, name, representation, description)
      select ${newId('scope')}, ${caller.teamId}, ${params.id}, ${ref}, ${body.name}, ${body.representation}, ${body.description ?? null}
      where (select count(*) from scopes where workspace_id = ${params.id} and deleted_at is null) < ${MAX_SCOPES}
      returning ${scopeColumns(sql)}`.catch((error: unknown) => {
      throw violates(error, 'scopes_representation') ? new ApiError('representation_taken') : error;
    });
    if (!row) throw new ApiError('scope_limit_reached');
    const scope = presentScope(row);
    changed('scope', row.id);
    audit('scope', row.id, undefined, scope);
    return { scope };
  },
});
