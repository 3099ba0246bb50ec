import { Session } from 'chdb';
import { setTimeout as sleep } from 'node:timers/promises';

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

export type Engine = ReturnType<typeof openEngine>;

// A merge follows what was written, and what it was made of stays for 60 s: twice the time after which Linux writes.
const LOOK_EVERY_MS = 1_000;
const LOOK_WHILE_IDLE_EVERY_MS = 20_000;
const IDLE_AFTER_MS = 10_000;

/**
 * Opens the ClickHouse engine on a data folder. The engine locks the folder, so only one process at a time can open it. The
 * lock ends with the process. `config` is a file of ClickHouse's configuration. A write that the disk did not take ends the
 * process, before the statement is answered.
 */
export function openEngine(folder: string, config: string) {
  // Open for the life of the process, since the engine stops with its last session.
  const root = new Session(folder, { connectionArgs: [`--config-file=${config}`] });
  const closing = new AbortController();
  let writtenAt = performance.now();
  void lookForLostWrites();
  return {
    version: root.query('select version()', 'TabSeparated').trim(),
    // Each statement has a session of its own (about 1 ms). That keeps settings, parameters and the current database apart,
    // and lets statements run at the same time, since one session runs one at a time. chdb's own parameter binding would let
    // the whole process run only one.
    async run(statement: Statement): Promise<Uint8Array> {
      const session = new Session(folder);
      try {
        const answer = await runOn(session, statement);
        if (isSelect(statement)) return answer;
        await endIfWriteWasLost(folder);
        writtenAt = performance.now();
        return answer;
      } finally {
        session.close();
      }
    },
    close(): void {
      closing.abort();
      root.close();
    },
  };

  // Merges write in the background. A look costs 7 ms, and each write has had one.
  async function lookForLostWrites(): Promise<void> {
    for (let lookedAt = -Infinity; !closing.signal.aborted; await sleep(LOOK_EVERY_MS)) {
      const now = performance.now();
      const everyMs = now - writtenAt < IDLE_AFTER_MS ? LOOK_EVERY_MS : LOOK_WHILE_IDLE_EVERY_MS;
      if (now - Math.max(lookedAt, writtenAt) < everyMs) continue;
      lookedAt = now;
      // A look that fails is made up for by the next one.
      await endIfWriteWasLost(folder).catch(() => {});
    }
  }
}

/** Whether a statement is a select that writes nothing, not even its answer (spool.ts). */
export function isSelect({ sql, data }: Statement): boolean {
  return data === undefined && /^\s*(?:select|with)\b/i.test(sql) && !/\binto outfile '/.test(sql);
}

/**
 * Ends the process if the engine could not write something, on a full disk for one. Where a ClickHouse server gives an error,
 * chdb counts the write and goes on: with an insert that is acknowledged, and a merged part that is in force, whose files are
 * empty. The start after it sets such parts aside, and takes up those that were merged, which lie on the disk for a while.
 */
async function endIfWriteWasLost(folder: string): Promise<void> {
  const session = new Session(folder);
  try {
    const event = 'WriteBufferFromFileDescriptorWriteFailed';
    const query = `select sum(value) from system.events where event = '${event}'`;
    const answer = await session.queryAsync(query, { format: 'TabSeparated' });
    if (Number(answer.text()) === 0) return;
    console.error('A write to the disk failed: is it full? Ending, since the engine goes on as if it had not.');
    process.kill(process.pid, 'SIGKILL');
  } finally {
    session.close();
  }
}

async function runOn(session: Session, statement: Statement): Promise<Uint8Array> {
  const { sql, data, format } = statement;
  const before = assignments(statement);
  // As one text: the engine takes a millisecond to wake up for each. Rows would end at the first line of such a text.
  if (data === undefined) return (await session.queryAsync([...before, sql].join(';\n'), { format })).bytes();
  if (before.length > 0) await session.queryAsync(before.join(';\n'));
  return (await session.queryAsync(data.length > 0 ? `${sql}\n${data.toString()}` : sql, { format })).bytes();
}

function assignments({ database, settings, parameters }: Statement): string[] {
  const named = Object.entries(parameters).map(([name, value]): [string, string] => [`param_${name}`, value]);
  const all = [...named, ...Object.entries(settings)];
  const set = all.map(([name, value]) => `${quote(name, '`')} = ${quote(value, "'")}`);
  return [
    ...(database === undefined ? [] : [`use ${quote(database, '`')}`]),
    ...(set.length === 0 ? [] : [`set ${set.join(', ')}`]),
  ];
}

function quote(text: string, mark: "'" | '`'): string {
  return mark + text.replaceAll('\\', '\\\\').replaceAll(mark, `\\${mark}`) + mark;
}
