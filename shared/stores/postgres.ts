import type postgres from 'postgres';
import { ApiError } from '../contract/errors.ts';
import driver from './postgres-driver.ts';

export const { PostgresError } = driver;

/** The connection pool, or one connection of it inside a transaction; both run tagged SQL. */
export type Sql = postgres.Sql<{ int8: number }>;
export type Transaction = postgres.TransactionSql<{ int8: number }>;
export type Query = Sql | Transaction;

type PostgresOptions = {
  max?: number;
  statementTimeoutMs?: number;
  /** Sees the rows of all teams. Without it, the api's role sees those of the team that a transaction names. */
  everyTeam?: boolean;
  /** The operator's quotas as JSON: writes beyond them are refused. Without it they are only counted. */
  quotas?: string;
  /** A Unix socket in place of the URL's host and port. */
  path?: string;
};

const STATEMENT_WITHIN_MS = 8_000;

// A machine that dies closes nothing. Within a minute Postgres ends its sessions, and with them the locks of its jobs; by the
// system's defaults, it takes two hours. Over a Unix socket, Postgres ignores these.
const endOfLostClient = {
  tcp_keepalives_idle: 30,
  tcp_keepalives_interval: 10,
  tcp_keepalives_count: 3,
  tcp_user_timeout: 60_000,
};

/** Connects lazily. An int8 is read as a number (counters and micro-credits stay below 2^53), a `date` as text. */
export function connectPostgres(url: string, options: PostgresOptions = {}): Sql {
  return driver(url, {
    max: options.max ?? 10,
    ...(options.path && { path: options.path }),
    connect_timeout: 5,
    idle_timeout: 60,
    onnotice: () => {},
    transform: { column: { from: driver.toCamel, to: driver.fromCamel }, undefined: null },
    connection: {
      application_name: 'keytally',
      TimeZone: 'UTC',
      statement_timeout: options.statementTimeoutMs ?? STATEMENT_WITHIN_MS,
      idle_in_transaction_session_timeout: 15_000,
      ...endOfLostClient,
      ...(options.everyTeam && { 'keytally.team': '*' }),
      ...(options.quotas && { 'keytally.quotas': options.quotas }),
    },
    types: {
      int8: { to: 20, from: [20], serialize: String, parse: Number },
      date: { to: 1082, from: [1082], serialize: String, parse: String },
    },
  }) as Sql;
}

/**
 * A list of ids for `any(…)`, each of which Postgres then looks up by an index. It reads a whole table instead when it sees
 * that a list is long, and once for each page of a long work.
 */
export function eachOf(sql: Query, ids: string[]) {
  return sql`array(select unnest(${ids}::text[]))`;
}

/** Names the team that a transaction is for: row-level security shows it that team's rows alone. */
export async function setTeam(tx: Transaction, teamId: string): Promise<void> {
  await tx`select set_config('keytally.team', ${teamId}, true)`;
}

/**
 * Reads as a team. Each statement runs in a transaction of its own that names the team: no statement can forget to, and no
 * connection is held between two statements.
 */
export function asTeam(sql: Sql, teamId: string): Query {
  const tagged = (first: TemplateStringsArray, ...rest: []) => {
    const made = sql(first, ...rest) as unknown as Statement;
    // `handler` runs when a statement is awaited; until then it may become a part of another one. A quoted name has none.
    if (Array.isArray(first.raw)) {
      made.handler = () => {
        sql
          .begin('read only', (tx) => Promise.all([setTeam(tx, teamId), tx`${made as never}`]))
          .then(([, rows]) => made.resolve(rows), made.reject);
      };
    }
    return made;
  };
  return Object.assign(tagged as unknown as Sql, sql);
}

/** What the driver makes of a tagged template, as far as it is used above. */
type Statement = { handler: () => void; resolve: (rows: unknown) => void; reject: (error: unknown) => void };

/** Whether an error says that the constraint of this name was broken: two callers raced. */
export function violates(error: unknown, constraint: string): boolean {
  return error instanceof PostgresError && error.constraint_name === constraint;
}

/** Turns an error that says that Postgres is unavailable into its 503; leaves every other error as it is. */
export function asPostgresUnavailable(error: unknown): unknown {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' && unavailableCodes.test(code)
    ? new ApiError('postgres_unavailable', { cause: error })
    : error;
}

/**
 * Whether an error says that a connection to Postgres failed. On each new connection the driver (postgres 3.4) asks for the
 * types of arrays, and nobody handles the failure of that: it must not end the process.
 */
export function isPostgresConnectionError(error: unknown): boolean {
  return asPostgresUnavailable(error) !== error;
}

// Class 08 connection, 53 resources, 57 operator intervention (statement timeouts too), 25006 the read-only standby, and the
// names that the driver and the system use.
const unavailableCodes =
  /^(08|53|57|25006)|^(CONNECT|CONNECTION)_|^(ECONN|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)/;
