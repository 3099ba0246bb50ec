import postgres from 'postgres';
import { ApiError } from '../contract/errors.ts';
import { withTimeout } from '../runtime/timeout.ts';

/** The connection pool, or one connection of it inside a transaction; both run tagged SQL. */
export type Sql = postgres.Sql<{ int8: number }>;
export type Transaction = postgres.TransactionSql<{ int8: number }>;
export type Query = Sql | Transaction;

type PostgresOptions = {
  max?: number;
  statementTimeoutMs?: number;
  /** Sees the rows of all teams; else, as the api's role, those of the team that a transaction names. */
  everyTeam?: boolean;
};

const STATEMENT_WITHIN_MS = 8_000;
const ANSWER_WITHIN_MS = 10_000;

/** Connects lazily. int8 comes as a number: counters and micro-credits stay below 2^53. `date` comes as its text. */
export function connectPostgres(url: string, options: PostgresOptions = {}): Sql {
  return postgres(url, {
    max: options.max ?? 10,
    connect_timeout: 5,
    idle_timeout: 60,
    onnotice: () => {},
    transform: { column: { from: postgres.toCamel, to: postgres.fromCamel }, undefined: null },
    connection: {
      application_name: 'keytally',
      TimeZone: 'UTC',
      statement_timeout: options.statementTimeoutMs ?? STATEMENT_WITHIN_MS,
      idle_in_transaction_session_timeout: 15_000,
      ...(options.everyTeam && { 'keytally.team': '*' }),
    },
    types: {
      int8: { to: 20, from: [20], serialize: String, parse: Number },
      date: { to: 1082, from: [1082], serialize: String, parse: String },
    },
  }) as Sql;
}

/** Gives a statement up after longer than Postgres lets it run: its connection says nothing any more. */
export function orGiveUp<Rows>(statement: Promise<Rows>): Promise<Rows> {
  return withTimeout(ANSWER_WITHIN_MS, statement);
}

/** Names the team that a transaction is for: row-level security shows it that team's rows alone. */
export async function setTeam(tx: Transaction, teamId: string): Promise<void> {
  await tx`select set_config('keytally.team', ${teamId}, true)`;
}

/**
 * Reads as a team: each statement runs in a transaction of its own that names the team, so that none is forgotten, and no
 * connection is held between two of them.
 */
export function asTeam(sql: Sql, teamId: string): Query {
  const tagged = (first: TemplateStringsArray, ...rest: []) => {
    const made = sql(first, ...rest) as unknown as Statement;
    // Where a statement goes when it is awaited; until then it may become a part of another. A name goes nowhere.
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

/** What the driver makes of a tagged text, as far as it is used above. */
type Statement = { handler: () => void; resolve: (rows: unknown) => void; reject: (error: unknown) => void };

/** Whether a constraint of this name was broken, for turning a race into its clear answer. */
export function violates(error: unknown, constraint: string): boolean {
  return error instanceof postgres.PostgresError && error.constraint_name === constraint;
}

/** Turns "Postgres is away" into its 503 and leaves every other error as it is. */
export function asPostgresUnavailable(error: unknown): unknown {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' && awayCodes.test(code)
    ? new ApiError('postgres_unavailable', { cause: error })
    : error;
}

// Class 08 connection, 53 resources, 57 operator intervention (statement timeouts too), the read-only standby, and the
// driver's and system's own names.
const awayCodes =
  /^(08|53|57|25006)|^(CONNECT|CONNECTION)_|^(ECONN|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)/;
