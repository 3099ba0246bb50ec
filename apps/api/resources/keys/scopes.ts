import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { id, nullable, named, object, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { name, representation } from '../../../../shared/contract/schemas.ts';
import { requireWorkspace } from '../access/access.ts';
import { resourceOf, type Row } from '../rows.ts';

export const MAX_SCOPES = 1000;

// A refusal says how many keys have a scope, up to so many.
const COUNTED_KEYS = 100;

const description = nullable(
  Type.String({
    maxLength: 1024,
    pattern: '^[^\\u0000]*$',
    description: 'what the scope is for',
    examples: ['documents of a customer'],
  }),
);

/** A workspace scope as the API answers it (section 2 of the specification). */
export const scope = named(
  'Scope',
  object({
    id: id('scope'),
    name,
    representation,
    description,
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when it last changed'),
  }),
);

export const newScope = object({ name, representation, description: Type.Optional(description) });
export const scopeChange = object({
  name: Type.Optional(name),
  representation: Type.Optional(representation),
  description: Type.Optional(description),
});

export type ScopeRow = Row<typeof scope>;

export const scopes = resourceOf('scopes', scope, 'scope_not_found');

/** The scope of a path; 403 or 404. `alone`: locked, also for those that grant the scope, who hold the row too. */
export async function readScope(
  sql: Query,
  caller: Caller,
  { id, sid }: { id: string; sid: string },
  lock: { lock?: boolean; alone?: boolean } = {},
): Promise<ScopeRow> {
  await requireWorkspace(sql, caller, id);
  return scopes.require(sql, sid, sql`workspace_id = ${id} and deleted_at is null`, lock);
}

/**
 * Throws 409 if a key that is not deleted has the scope, whose row must be locked `alone`: a grant that began before is
 * stored by now, and a later one waits.
 */
export async function refuseGranted(sql: Query, scopeId: string): Promise<void> {
  const { length } = await grantsOf(sql, scopeId, COUNTED_KEYS);
  if (length === 0) return;
  const keys = length < COUNTED_KEYS ? `${length} ${length === 1 ? 'key' : 'keys'}` : `at least ${COUNTED_KEYS} keys`;
  const message = `The scope is granted to ${keys}; make a scope with the new representation and grant that.`;
  throw new ApiError('scope_granted', { message });
}

/** Grants of a scope to keys that are not deleted, `atMost` so many. */
export function grantsOf(sql: Query, scopeId: string, atMost: number) {
  return sql`select from key_grants where scope_id = ${scopeId} and not of_deleted_key limit ${atMost}`;
}
