import { Session } from 'chdb';

/** One statement with everything that belongs to it. None of it outlives the statement. */
export interface Statement {
  sql: string;
  /** Rows of an INSERT, if they were sent apart from its text. */
  data?: Buffer | undefined;
  database?: string | undefined;
  /** The format of the answer if the statement names none. */
  format: string;
  settings: Record<string, string>;
  /** Values of `{name:Type}`, in ClickHouse's escaped text form. */
  parameters: Record<string, string>;
}

export interface Outcome {
  bytes: Uint8Array;
  rowsRead: number;
  bytesRead: number;
  rowsWritten: number;
  elapsedSeconds: number;
}

export interface Engine {
  version: string;
  run(statement: Statement): Promise<Outcome>;
  close(): void;
}

/**
 * Opens the ClickHouse engine on a data folder. The engine locks the folder, so only one process at a time can open it. The
 * lock ends with the process.
 */
export function openEngine(folder: string): Engine {
  // Open for the life of the process, since the engine stops with its last session.
  const root = new Session(folder);
  return {
    version: root.query('select version()', 'TabSeparated').trim(),
    // Each statement has a session of its own (about 1 ms). That keeps settings, parameters and the current database apart,
    // and lets statements run at the same time, since one session runs one at a time. chdb's own parameter binding would let
    // the whole process run only one.
    async run(statement) {
      const session = new Session(folder);
      try {
        return await runOn(session, statement);
      } finally {
        session.close();
      }
    },
    close: () => root.close(),
  };
}

async function runOn(session: Session, { sql, data, database, format, settings, parameters }: Statement) {
  if (database !== undefined) await session.queryAsync(`use ${quote(database, '`')}`);
  const assignments = [
    ...Object.entries(settings).map(([name, value]) => `${quote(name, '`')} = ${quote(value, "'")}`),
    ...Object.entries(parameters).map(([name, value]) => `${quote(`param_${name}`, '`')} = ${quote(value, "'")}`),
  ];
  if (assignments.length > 0) await session.queryAsync(`set ${assignments.join(', ')}`);

  const insert = data && rawInsert.exec(sql)?.groups;
  if (insert) {
    const { table, columns, format: given } = insert as { table: string; columns?: string; format: string };
    const done = await session.insert({
      table,
      values: data,
      format: given as 'JSONEachRow',
      ...(columns && { columns: columns.split(',').map((column) => column.trim()) }),
    });
    const { rowsWritten, elapsed: elapsedSeconds } = done;
    return { bytes: new Uint8Array(0), rowsRead: rowsWritten, bytesRead: data.length, rowsWritten, elapsedSeconds };
  }
  const text = data && data.length > 0 ? `${sql}\n${data.toString()}` : sql;
  const answer = await session.queryAsync(text, { format });
  const { rowsRead, bytesRead, elapsed: elapsedSeconds } = answer;
  return { bytes: answer.bytes(), rowsRead, bytesRead, rowsWritten: 0, elapsedSeconds };
}

// The form of INSERT that clients send: chdb takes its rows as bytes and gives the number written. Any other INSERT runs as
// text.
const rawInsert =
  /^\s*insert\s+into\s+(?<table>[\w.]+)\s*(?:\(\s*(?<columns>\w+(?:\s*,\s*\w+)*)\s*\)\s*)?format\s+(?<format>JSONEachRow|JSONCompactEachRow|TabSeparated|CSV)\s*;?\s*$/i;

function quote(text: string, mark: "'" | '`'): string {
  return mark + text.replaceAll('\\', '\\\\').replaceAll(mark, `\\${mark}`) + mark;
}
