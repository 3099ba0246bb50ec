import { Type } from 'typebox';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { isId } from '../../../shared/values/ids.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { id, nullable, object, timestamp } from '../../../shared/contract/schema-kinds.ts';
import { name, representation } from '../../../shared/contract/schemas.ts';
import { requireWorkspace } from './access.ts';

export const MAX_SCOPES = 1000;

const description = nullable(
  Type.String({
    maxLength: 1024,
    pattern: '^[^\\u0000]*$',
    description: 'what the scope is for',
    examples: ['documents of a customer'],
  }),
);

/** A workspace scope as the API answers it (section 2 of the specification). */
export const scope = object({
  id: id('scope'),
  name,
  representation,
  description,
  createdAt: timestamp('when it was made'),
  updatedAt: timestamp('when it last changed'),
});

export const newScope = object({ name, representation, description: Type.Optional(description) });
export const scopeChange = object({
  name: Type.Optional(name),
  representation: Type.Optional(representation),
  description: Type.Optional(description),
});

/** The path of one scope. */
export const scopeParams = object({ id: id('workspace'), sid: id('scope') });

export type ScopeRow = {
  id: string;
  name: string;
  representation: string;
  description: string | null;
  createdAt: Date;
  updatedAt: Date;
};

/** The columns of a ScopeRow, for a select or a returning. */
export const scopeColumns = (sql: Query) => sql`id, name, representation, description, created_at, updated_at`;

/** The condition that selects the scope of a path. */
export function isScopeOf(sql: Query, { id, sid }: { id: string; sid: string }) {
  return sql`workspace_id = ${id} and id = ${isId(sid) ? sid : ''} and deleted_at is null`;
}

/** Locks a scope's row; throws 403 or 404. */
export async function lockScope(sql: Query, caller: Caller, params: { id: string; sid: string }): Promise<ScopeRow> {
  await requireWorkspace(sql, caller, params.id);
  const [row] = await sql<ScopeRow[]>`
    select ${scopeColumns(sql)} from scopes where ${isScopeOf(sql, params)} for no key update`;
  if (!row) throw new ApiError('scope_not_found');
  return row;
}

export function presentScope(row: ScopeRow) {
  return { ...row, createdAt: row.createdAt.toISOString(), updatedAt: row.updatedAt.toISOString() };
}
