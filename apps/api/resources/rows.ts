import type { Parameter, PendingQuery, Row as PostgresRow } from 'postgres';
import type { Static, TObject, TSchema, TString } from 'typebox';
import { ApiError, type ErrorName } from '../../../shared/contract/errors.ts';
import { object } from '../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { formatCredits } from '../../../shared/values/credits.ts';
import { isId } from '../../../shared/values/ids.ts';
import type { AuditResource, Recorded, SayChanged } from './record.ts';

/** A row whose columns are the fields of a schema: an optional field may be null, and a time is a Date. */
export type Row<Schema extends TObject> = {
  [Field in keyof Static<Schema>]-?:
    | (Static<Schema>[Field] extends infer Value ? Stored<Field, Exclude<Value, undefined>> : never)
    | ({} extends Pick<Static<Schema>, Field> ? null : never);
};
type Stored<Field, Value> = Field extends 'since' | `${string}${'At' | 'Since'}`
  ? Value extends string
    ? Date
    : Value
  : Value;

/**
 * What `present` makes an answer of: the values of a row, those that are left out as null or undefined, times in any form, and an amount
 * of credits as such or in micro-credits: `usedCredits` as `usedMicros`, `amount` as `amountMicros`.
 */
export type Values<Schema extends TObject> = {
  [Field in Exclude<keyof Row<Schema>, Amount>]: Value<Schema, Field>;
} & { [Field in keyof Row<Schema> & Amount]?: Value<Schema, Field> } & {
  [micros: `${string}Micros`]: number | null | undefined;
};
type Amount =
  | `${string}Credits`
  | 'credits'
  | 'amount'
  | 'unit'
  | 'spendCap'
  | 'difference'
  | 'heldDifference'
  | 'lastBalance'
  | 'lost';
type Value<Schema extends TObject, Field extends keyof Row<Schema>> =
  Row<Schema>[Field] | Static<Schema>[Field] | (null extends Row<Schema>[Field] ? undefined : never);

/** An answer by its schema: the fields of the schema, without those that are not set. */
export function present<Schema extends TObject>(schema: Schema, values: Values<Schema>): Static<Schema> {
  const required = new Set<string>(schema.required);
  const fields = Object.entries<TSchema & { format?: string }>(schema.properties).flatMap(([field, { format }]) => {
    const value = valueOf(values, field);
    if (value === undefined && required.has(field)) throw new Error(`an answer lacks ${field}`);
    if (value === undefined || (value === null && !required.has(field))) return [];
    return [[field, format === 'date-time' ? new Date(value as Date).toISOString() : value]];
  });
  return Object.fromEntries(fields) as Static<Schema>;
}

function valueOf(values: Record<string, unknown>, field: string): unknown {
  const micros = values[`${field.replace(/Credits$/, '')}Micros`];
  return values[field] === undefined && typeof micros === 'number' ? formatCredits(micros) : values[field];
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
    const column = expressions[field] ?? columnOf(field);
    // The driver gives `allowed_ips` another name.
    return field in expressions || field.endsWith('IPs') ? `${column} as "${field}"` : column;
  });
  return columns.join(', ');
}

function columnOf(field: string): string {
  return field.replace(/IPs|[A-Z]/g, (part) => `_${part.toLowerCase()}`);
}

const JSON_FIELDS = /^(alerts|branding|default(Alerts|Limits)|eventNames|externalIds|limits|metadata|prices|rules)$/;

/** Values by their fields as values of columns. Nothing stays as it is. */
export function stored(sql: Query, values: Record<string, unknown>): Record<string, string> {
  const columns = Object.entries(values).map(([field, value]) => [
    columnOf(field),
    JSON_FIELDS.test(field) ? jsonValue(sql, value as object | null | undefined) : value,
  ]);
  return Object.fromEntries(columns) as Record<string, string>;
}

const JSON_OID = 114;

/** A value as a parameter of type json; the driver would send jsonb, which refuses NUL in text. Nothing stays as it is. */
export function jsonValue<Value extends object | null | undefined>(sql: Query, value: Value) {
  return (value && sql.typed(value, JSON_OID)) as Parameter<readonly object[]> | Exclude<Value, object>;
}

/** Takes the lock of a name until the transaction ends: of two that come at once, the second sees what the first has stored. */
export async function lockName(sql: Query, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`;
}

/** A part of a statement. */
export type Where = PendingQuery<PostgresRow[]>;

/** The condition that columns have these values; one that is not given may have any. Nothing has NUL, which Postgres would refuse. */
export function matching(sql: Query, values: Record<string, string | undefined>) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  if (given.some(([, value]) => value!.includes('\0'))) return sql`false`;
  return given.reduce((all, [field, value]) => sql`${all} and ${sql(field)} = ${value!}`, sql`true`);
}

/** The table of a resource whose answers are its rows; these may have columns `besides`. `kind` is its name in the audit log. */
export function resourceOf<Schema extends TObject<{ id: TString }>, Besides extends object = {}>(
  kind: AuditResource,
  schema: Schema,
  unknown: ErrorName,
  expressions: Record<string, string> = {},
  besides: (keyof Besides & string)[] = [],
  ended: Record<string, unknown> = {},
) {
  const columns = [columnsOf(schema, expressions), ...besides].join(', ');
  const table = tableOf<Row<Schema> & Besides & { id: string }>(`${kind}s`, columns, unknown);
  return answered(kind, table, (row) => present(schema, row as Values<Schema>), ended);
}

/**
 * A table of a resource with `present`, which makes an answer, and a state in the audit log, of a row. `ended`: what one that is deleted
 * has, without its secrets.
 */
export function answered<Row extends { id: string }, Answer extends object>(
  kind: AuditResource,
  table: Table<Row>,
  present: (row: Row) => Answer,
  ended: Record<string, unknown> = {},
) {
  const recorded = ({ before, after, ...more }: Change<Row>): Recorded & { before?: Answer; after?: Answer } => {
    const row = (after ?? before)!;
    return {
      resource: kind,
      id: row.id,
      ...(before && { before: present(before) }),
      ...(after && { after: present(after) }),
      ...('shard' in row && { shards: [row.shard as number] }),
      ...more,
    };
  };
  return {
    ...table,
    /** A row as the API answers it. */
    present,
    /** What pages of a list are made of. */
    list: (sql: Query, where: Where) => ({
      read: (after: string, take: number) => table.page(sql, where, after, take),
      present,
    }),
    /** What to say of a change of a row. */
    recorded,
    /** Says it; gives the row as the API answers it. */
    say(changed: SayChanged, change: Change<Row>): Answer {
      const said = recorded(change);
      changed(said);
      return (said.after ?? said.before)!;
    },
    /** Deletes locked rows. The consumer removes what waits for them. */
    async end(sql: Query, changed: SayChanged, rows: readonly Row[]): Promise<void> {
      await sql`
        update ${sql(`${kind}s`)} set ${sql(stored(sql, ended))}, deleted_at = now() where id = any(${rows.map(({ id }) => id)})`;
      changed(...rows.map((before) => recorded({ before })));
    },
  };
}

/** A row that was created has no `before`, one that is gone no `after`. */
type Change<Row> = { before?: Row | undefined; after?: Row | undefined } & Partial<Pick<Recorded, 'shards' | 'step'>>;
type Table<Row extends { id: string }> = ReturnType<typeof tableOf<Row>>;

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

    /** Throws where so many rows are under a condition. */
    async requireFew(sql: Query, where: Where, most: number, error: ErrorName): Promise<void> {
      const [{ count }] = await sql<[{ count: number }]>`
        select count(*)::int as count from ${sql.unsafe(name)} where ${where}`;
      if (count >= most) throw new ApiError(error);
    },

    /** Inserts a row. */
    async insert(sql: Query, values: Record<string, unknown>): Promise<Row> {
      const [row] = await sql<[Row]>`
        insert into ${sql.unsafe(name)} ${sql(stored(sql, values))} returning ${columns(sql)}`;
      return row;
    },

    /** Changes a row as a PATCH does. */
    async update(sql: Query, id: string, values: Record<string, unknown>): Promise<Row> {
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

/**
 * The assignments of a PATCH: each given value (`null` clears), the next version and the time of the change. Without any value the row
 * stays as it is.
 */
export function set(sql: Query, values: Record<string, unknown>) {
  const given = Object.entries(stored(sql, values)).filter(([, value]) => value !== undefined);
  if (given.length === 0) return sql`version = version`;
  return given.reduce(
    (assigned, [column, value]) => sql`${assigned}, ${sql(column)} = ${value}`,
    sql`version = version + 1, updated_at = now()`,
  );
}
