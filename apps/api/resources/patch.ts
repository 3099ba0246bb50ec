import type { Parameter } from 'postgres';
import type { Query } from '../../../shared/stores/postgres.ts';

type Value =
  | string
  | number
  | boolean
  | string[]
  | Parameter<Record<string, unknown>>
  | Parameter<readonly object[]>
  | null
  | undefined;

/**
 * The assignments of a PATCH: each given value (`null` clears), the next version and the time of the change. Names in
 * camelCase become column names. Without any value the row stays as it is.
 */
export function set(sql: Query, values: Record<string, Value>) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  if (given.length === 0) return sql`version = version`;
  return given.reduce(
    (assigned, [field, value]) => sql`${assigned}, ${sql(field)} = ${value as string | null}`,
    sql`version = version + 1, updated_at = now()`,
  );
}
