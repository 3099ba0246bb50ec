import postgres from 'postgres';
import { ApiError } from './errors.ts';

/** The connection pool, or one connection of it inside a transaction; both run tagged SQL. */
export type Sql = postgres.Sql<{ int8: number }>;
export type Transaction = postgres.TransactionSql<{ int8: number }>;
export type Query = Sql | Transaction;

/** Connects lazily. int8 comes as a number: counters and micro-credits stay below 2^53. `date` comes as its text. */
export function connectPostgres(url: string, options: { max?: number; statementTimeoutMs?: number } = {}): Sql {
  return postgres(url, {
    max: options.max ?? 10,
    connect_timeout: 5,
    idle_timeout: 60,
    onnotice: () => {},
    transform: { column: { from: postgres.toCamel, to: postgres.fromCamel }, undefined: null },
    connection: {
      application_name: 'keytally',
      TimeZone: 'UTC',
      statement_timeout: options.statementTimeoutMs ?? 8_000,
      idle_in_transaction_session_timeout: 15_000,
    },
    types: {
      int8: { to: 20, from: [20], serialize: String, parse: Number },
      date: { to: 1082, from: [1082], serialize: String, parse: String },
    },
  }) as Sql;
}

/** Whether a constraint of this name was broken, for turning a race into its clear answer. */
export function violates(error: unknown, constraint: string): boolean {
  return error instanceof postgres.PostgresError && error.constraint_name === constraint;
}

/** Turns "Postgres is away" into its 503 and leaves every other error as it is. */
export function asPostgresAway(error: unknown): unknown {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' && awayCodes.test(code) ? new ApiError('postgres_away', { cause: error }) : error;
}

// Class 08 connection, 53 resources, 57 operator intervention (statement timeouts too), the read-only standby, and the
// driver's and system's own names.
const awayCodes =
  /^(08|53|57|25006)|^(CONNECT|CONNECTION)_|^(ECONN|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)/;
