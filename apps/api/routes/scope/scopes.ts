import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { violates } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { route } from '../../http/route.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import {
  MAX_SCOPES,
  newScope,
  presentScope,
  scope,
  scopeColumns,
  isScopeOf,
  lockScope,
  refuseGranted,
  scopeChange,
  type ScopeRow,
} from '../../resources/keys/scopes.ts';
import { set } from '../../resources/patch.ts';

export const createScope = route('post', '/api/v1/workspace/{id}/scope', {
  summary: 'Create a scope in a workspace',
  description:
    'A scope is what keys can be granted: its representation, with flags for create, read, update and delete.',
  permission: 'workspace:write',
  status: 201,
  grows: true,
  body: newScope,
  response: object({ scope }),
  errors: ['representation_taken', 'scope_limit_reached'],

  async handle({ sql, params, body, caller, changed }) {
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
    changed('scope', row.id, { after: scope });
    return { scope };
  },
});

export const listScopes = route('get', '/api/v1/workspace/{id}/scopes', {
  summary: 'List all scopes of a workspace',
  description: 'The answer has them all: it has no pages.',
  permission: 'workspace:read',
  response: object({ scopes: Type.Array(scope, { maxItems: MAX_SCOPES }) }),

  async handle({ sql, params, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const rows = await sql<ScopeRow[]>`
      select ${scopeColumns(sql)} from scopes where workspace_id = ${params.id} and deleted_at is null order by id`;
    return { scopes: rows.map(presentScope) };
  },
});

export const getScope = route('get', '/api/v1/workspace/{id}/scope/{sid}', {
  summary: 'Get a scope',
  description: 'Gives what a scope stands for, its name and its description.',
  permission: 'workspace:read',
  response: object({ scope }),

  async handle({ sql, params, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const [row] = await sql<ScopeRow[]>`select ${scopeColumns(sql)} from scopes where ${isScopeOf(sql, params)}`;
    if (!row) throw new ApiError('scope_not_found');
    return { scope: presentScope(row) };
  },
});

export const updateScope = route('patch', '/api/v1/workspace/{id}/scope/{sid}', {
  summary: 'Change a scope; its representation only while no key has it',
  description: 'Its name and description can always change.',
  permission: 'workspace:write',
  body: scopeChange,
  response: object({ scope }),
  errors: ['representation_taken', 'scope_granted', 'quota_exceeded'],

  async handle({ sql, params, body, caller, changed }) {
    const before = await lockScope(sql, caller, params, { alone: body.representation !== undefined });
    if (body.representation !== undefined && body.representation !== before.representation)
      await refuseGranted(sql, before.id);
    const [row] = await sql<[ScopeRow]>`
      update scopes set ${set(sql, body)} where ${isScopeOf(sql, params)}
      returning ${scopeColumns(sql)}`.catch((error: unknown) => {
      throw violates(error, 'scopes_representation') ? new ApiError('representation_taken') : error;
    });
    const scope = presentScope(row);
    changed('scope', row.id, { before: presentScope(before), after: scope });
    return { scope };
  },
});

export const deleteScope = route('delete', '/api/v1/workspace/{id}/scope/{sid}', {
  summary: 'Delete a scope, and with it every grant of it',
  description: 'Keys lose it before the answer.',
  permission: 'workspace:write',
  response: object({ scope }),

  async handle({ sql, params, caller, changed }) {
    const before = await lockScope(sql, caller, params);
    // The grants stay as rows without effect: the cost does not depend on the number of keys.
    const [row] = await sql<[ScopeRow]>`
      update scopes set deleted_at = now(), version = version + 1, updated_at = now() where ${isScopeOf(sql, params)}
      returning ${scopeColumns(sql)}`;
    changed('scope', row.id, { before: presentScope(before) });
    return { scope: presentScope(row) };
  },
});
