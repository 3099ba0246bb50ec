import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { violates, type Query } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { route } from '../../http/route.ts';
import { requireWorkspace, within } from '../../resources/access/access.ts';
import { scope, scopes } from '../../resources/keys/scopes.ts';

const MAX_SCOPES = 1000;
// A refusal says how many keys have a scope, up to so many.
const COUNTED_KEYS = 100;

const { name, representation, description } = scope.properties;

export const createScope = route('post', '/api/v1/workspace/{id}/scope', {
  summary: 'Create a scope in a workspace',
  description:
    'A scope is what keys can be granted: its representation, with flags for create, read, update and delete.',
  permission: 'workspace:write',
  status: 201,
  grows: true,
  body: object({ name, representation, description: Type.Optional(description) }),
  response: object({ scope }),
  errors: ['representation_taken', 'scope_limit_reached'],

  async handle({ sql, params, body, caller, changed }) {
    await requireWorkspace(sql, caller, params.id, { hold: true });
    // Locks the workspace's row: its scopes are created one after the other, and the count below is exact.
    const [{ ref }] = await sql<[{ ref: number }]>`
      update workspaces set last_scope_ref = last_scope_ref + 1 where id = ${params.id} returning last_scope_ref as ref`;
    await scopes.requireFew(sql, within(sql, params.id), MAX_SCOPES, 'scope_limit_reached');
    const made = { id: newId('scope'), teamId: caller.teamId, workspaceId: params.id, ref, ...body };
    const row = await scopes.insert(sql, made).catch(refuseTaken);
    return { scope: scopes.say(changed, { after: row }) };
  },
});

export const listScopes = route('get', '/api/v1/workspace/{id}/scopes', {
  summary: 'List all scopes of a workspace',
  description: 'The answer has them all: it has no pages.',
  permission: 'workspace:read',
  response: object({ scopes: Type.Array(scope, { maxItems: MAX_SCOPES }) }),

  async handle({ sql, params, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const rows = await scopes.page(sql, within(sql, params.id), '', MAX_SCOPES);
    return { scopes: rows.map(scopes.present) };
  },
});

export const getScope = route('get', '/api/v1/workspace/{id}/scope/{sid}', {
  summary: 'Get a scope',
  description: 'Gives what a scope stands for, its name and its description.',
  permission: 'workspace:read',
  response: object({ scope }),

  async handle({ sql, params, caller }) {
    return { scope: scopes.present(await readScope(sql, caller, params)) };
  },
});

export const updateScope = route('patch', '/api/v1/workspace/{id}/scope/{sid}', {
  summary: 'Change a scope; its representation only while no key has it',
  description: 'Its name and description can always change.',
  permission: 'workspace:write',
  body: object({
    name: Type.Optional(name),
    representation: Type.Optional(representation),
    description: Type.Optional(description),
  }),
  response: object({ scope }),
  errors: ['representation_taken', 'scope_granted', 'quota_exceeded'],

  async handle({ sql, params, body, caller, changed }) {
    const before = await readScope(sql, caller, params, { lock: true, alone: body.representation !== undefined });
    if (body.representation !== undefined && body.representation !== before.representation)
      await refuseGranted(sql, before.id);
    const row = await scopes.update(sql, before.id, body).catch(refuseTaken);
    return { scope: scopes.say(changed, { before, after: row }) };
  },
});

export const deleteScope = route('delete', '/api/v1/workspace/{id}/scope/{sid}', {
  summary: 'Delete a scope, and with it every grant of it',
  description: 'Keys lose it before the answer.',
  permission: 'workspace:write',
  response: object({ scope }),

  async handle({ sql, params, caller, changed }) {
    const before = await readScope(sql, caller, params, { lock: true });
    // The grants stay as rows without effect until it leaves: the cost does not depend on the number of keys.
    const row = await scopes.remove(sql, before.id);
    scopes.say(changed, { before });
    return { scope: scopes.present(row) };
  },
});

/** The scope of a path; 403 or 404. `alone`: locked, also for those that grant the scope, who hold the row too. */
async function readScope(
  sql: Query,
  caller: Caller,
  { id, sid }: { id: string; sid: string },
  lock: { lock?: boolean; alone?: boolean } = {},
) {
  await requireWorkspace(sql, caller, id);
  return scopes.require(sql, sid, within(sql, id), lock);
}

/**
 * Throws 409 if a key that is not deleted has the scope, whose row must be locked `alone`: a grant that began before is
 * stored by now, and a later one waits.
 */
async function refuseGranted(sql: Query, scopeId: string): Promise<void> {
  const { length } = await sql`
    select from key_grants where scope_id = ${scopeId} and not of_deleted_key limit ${COUNTED_KEYS}`;
  if (length === 0) return;
  const keys = length < COUNTED_KEYS ? `${length} ${length === 1 ? 'key' : 'keys'}` : `at least ${COUNTED_KEYS} keys`;
  const message = `The scope is granted to ${keys}; make a scope with the new representation and grant that.`;
  throw new ApiError('scope_granted', { message });
}

function refuseTaken(error: unknown): never {
  throw violates(error, 'scopes_representation') ? new ApiError('representation_taken') : error;
}
