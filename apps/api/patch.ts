import type { Parameter } from 'postgres';
import type { Query } from '../../shared/postgres.ts';

type Value = string | number | boolean | string[] | Parameter<Record<string, unknown>> | null | undefined;

/**
 * The assignments of a PATCH: each value that was given (`null` clears), the next version and the time of the change.
 * A field's name in camelCase is its column.
 */
export function set(sql: Query, values: Record<string, Value>) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return given.reduce(
    (assigned, [field, value]) => sql`${assigned}, ${sql(field)} = ${value as string | null}`,
    sql`version = version + 1, updated_at = now()`,
  );
}
