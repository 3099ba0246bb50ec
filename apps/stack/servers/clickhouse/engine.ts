import { Session } from 'chdb';

/** One statement with all that belongs to it; nothing of it outlives its run. */
export interface Statement {
  sql: string;
  /** Rows of an INSERT that came apart from its text. */
  data?: Buffer | undefined;
  database?: string | undefined;
  /** The format of the answer where the statement names none. */
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
 * Opens the ClickHouse engine on a data folder. Only one process at a time can: the engine locks the folder, and the
 * lock goes with the process.
 */
export function openEngine(folder: string): Engine {
  // Held open for the life of the process: the engine stops with its last session.
  const root = new Session(folder);
  return {
    version: root.query('select version()', 'TabSeparated').trim(),
    // A session of its own for each statement (about 1 ms) keeps settings, parameters and the current database apart,
    // and lets statements run side by side: one session runs one at a time. chdb's own parameter binding is not used,
    // since it lets only one statement of the whole process run at a time.
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

// The plain form that clients send. chdb then takes the rows as bytes and tells how many it wrote; any other INSERT
// runs as text.
const rawInsert =
  /^\s*insert\s+into\s+(?<table>[\w.]+)\s*(?:\(\s*(?<columns>\w+(?:\s*,\s*\w+)*)\s*\)\s*)?format\s+(?<format>JSONEachRow|JSONCompactEachRow|TabSeparated|CSV)\s*;?\s*$/i;

function quote(text: string, mark: "'" | '`'): string {
  return mark + text.replaceAll('\\', '\\\\').replaceAll(mark, `\\${mark}`) + mark;
}
