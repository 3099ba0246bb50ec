import type { Parameter } from 'postgres';
import type { Query } from '../../../shared/stores/postgres.ts';

type Value = string | number | boolean | string[] | Parameter<Record<string, unknown>> | null | undefined;

/**
 * The assignments of a PATCH: each value that was given (`null` clears), the next version and the time of the change.
 * A field's name in camelCase is its column. Where nothing was given nothing changes, unless
 * `more` does, which is not in the row.
 */
export function set(sql: Query, values: Record<string, Value>, more = false) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  if (given.length === 0 && !more) return sql`version = version`;
  return given.reduce(
    (assigned, [field, value]) => sql`${assigned}, ${sql(field)} = ${value as string | null}`,
    sql`version = version + 1, updated_at = now()`,
  );
}
