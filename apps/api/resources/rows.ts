import type { Parameter, PendingQuery, Row as PostgresRow } from 'postgres';
import type { Static, TObject, TSchema, TString } from 'typebox';
import { ApiError, type ErrorName } from '../../../shared/contract/errors.ts';
import { object } from '../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { isId } from '../../../shared/values/ids.ts';

/** A row whose columns are the fields of a schema: an optional field may be null, and a time is a Date. */
export type Row<Schema extends TObject> = {
  [Field in keyof Static<Schema>]-?:
    | (Static<Schema>[Field] extends infer Value ? Stored<Field, Exclude<Value, undefined>> : never)
    | ({} extends Pick<Static<Schema>, Field> ? null : never);
};
type Stored<Field, Value> = Field extends `${string}${'At' | 'Since'}` ? (Value extends string ? Date : Value) : Value;

/** What `present` makes an answer of: the values of a row, those that are left out as null or undefined, times in any form. */
export type Values<Schema extends TObject> = {
  [Field in keyof Row<Schema>]:
    Row<Schema>[Field] | Static<Schema>[Field] | (null extends Row<Schema>[Field] ? undefined : never);
};

/** An answer by its schema: the fields of the schema, without those that are not set. */
export function present<Schema extends TObject>(schema: Schema, values: Values<Schema>): Static<Schema> {
  const required = new Set<string>(schema.required);
  const fields = Object.entries<TSchema & { format?: string }>(schema.properties).flatMap(([field, { format }]) => {
    const value: unknown = values[field as keyof typeof values];
    if (value === undefined || (value === null && !required.has(field))) return [];
    return [[field, format === 'date-time' ? new Date(value as Date).toISOString() : value]];
  });
  return Object.fromEntries(fields) as Static<Schema>;
}

/** The same schema without some of its fields. */
export function without<Schema extends TObject, Field extends keyof Schema['properties'] & string>(
  { properties }: Schema,
  fields: readonly Field[],
) {
  const left = Object.entries(properties).filter(([field]) => !fields.includes(field as Field));
  return object(Object.fromEntries(left) as Omit<Schema['properties'], Field>);
}

/** The columns of a `Row`; `expressions` are those of fields that have no column of their name. */
export function columnsOf({ properties }: TObject, expressions: Record<string, string> = {}): string {
  const columns = Object.keys(properties).map((field) => {
    const column = field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return field in expressions ? `${expressions[field]} as "${field}"` : column;
  });
  return columns.join(', ');
}

/** Takes the lock of a name until the transaction ends: of two that come at once, the second sees what the first has stored. */
export async function lockName(sql: Query, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`;
}

/** A part of a statement. */
export type Where = PendingQuery<PostgresRow[]>;

/** The condition that columns have these values; one that is not given may have any. */
export function matching(sql: Query, values: Record<string, string | undefined>) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return given.reduce((all, [field, value]) => sql`${all} and ${sql(field)} = ${value!}`, sql`true`);
}

/** The table of a resource whose answers are its rows; these may have columns `besides`. */
export function resourceOf<Schema extends TObject<{ id: TString }>, Besides extends object = {}>(
  name: string,
  schema: Schema,
  unknown: ErrorName,
  expressions: Record<string, string> = {},
  besides: (keyof Besides & string)[] = [],
) {
  const columns = [columnsOf(schema, expressions), ...besides].join(', ');
  const table = tableOf<Row<Schema> & Besides & { id: string }>(name, columns, unknown);
  const presentRow = (row: Row<Schema>) => present(schema, row as Values<Schema>);
  return {
    ...table,
    /** A row as the API answers it. */
    present: presentRow,
    /** What pages of a list are made of. */
    list: (sql: Query, where: Where) => ({
      read: (after: string, take: number) => table.page(sql, where, after, take),
      present: presentRow,
    }),
  };
}

/** Reads and writes a table of rows with an id; `unknown` is the error where there is none. */
export function tableOf<Row extends { id: string }>(name: string, columnList: string, unknown: ErrorName) {
  const columns = (sql: Query) => sql`${sql.unsafe(columnList)}`;
  return {
    /** The columns of a row, for a select or a returning. */
    columns,

    /** The next rows of a list in the order of their ids. */
    page: (sql: Query, where: Where, after: string, take: number) => sql<Row[]>`
      select ${columns(sql)} from ${sql.unsafe(name)} where ${where} and id > ${after} order by id limit ${take}`,

    /** One row under a condition, or the error; `lock`: until the transaction ends nobody else changes it. */
    async require(sql: Query, id: string, where: Where, { lock = false, alone = false } = {}): Promise<Row> {
      const locked = alone ? sql`for update` : lock ? sql`for no key update` : sql``;
      const [row] = isId(id)
        ? await sql<Row[]>`select ${columns(sql)} from ${sql.unsafe(name)} where id = ${id} and ${where} ${locked}`
        : [];
      if (!row) throw new ApiError(unknown);
      return row;
    },

    /** The rows of a workspace that are not deleted, which nobody else changes until the transaction ends. */
    lockAll: (sql: Query, workspaceId: string) => sql<Row[]>`
      select ${columns(sql)} from ${sql.unsafe(name)} where workspace_id = ${workspaceId} and deleted_at is null
      order by id for no key update`,

    /** Inserts a row. */
    async insert(sql: Query, values: Record<string, unknown>): Promise<Row> {
      const [row] = await sql<[Row]>`
        insert into ${sql.unsafe(name)} ${sql(values as Record<string, string>)} returning ${columns(sql)}`;
      return row;
    },

    /** Changes a row as a PATCH does. */
    async update(sql: Query, id: string, values: Record<string, Value>): Promise<Row> {
      const [row] = await sql<[Row]>`
        update ${sql.unsafe(name)} set ${set(sql, values)} where id = ${id} returning ${columns(sql)}`;
      return row;
    },

    /** Marks a row as deleted. */
    async remove(sql: Query, id: string): Promise<Row> {
      const [row] = await sql<[Row]>`
        update ${sql.unsafe(name)} set deleted_at = now(), version = version + 1, updated_at = now() where id = ${id}
        returning ${columns(sql)}`;
      return row;
    },
  };
}

type Value =
  | string
  | number
  | boolean
  | readonly string[]
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
