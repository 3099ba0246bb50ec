import { randomUUID } from 'node:crypto';
import { open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Engine, Statement } from './engine.ts';
import { Refusal } from './refusal.ts';

const LOOK_EVERY_MS = 100;
// The engine's numbers of errors.
const TOO_MANY_ROWS_OR_BYTES = 396;
const QUERY_WAS_CANCELLED = 394;

/**
 * Runs a select to its end, with its answer on disk: the engine would hold each in memory, several times. When the signal says that nobody
 * waits for it any more, it is ended.
 */
export async function spool(engine: Engine, folder: string, statement: Statement, signal: AbortSignal) {
  const { query, format } = splitFormat(statement);
  const path = join(folder, `answer-${randomUUID()}`);
  const sql = `${query} into outfile '${path}' format ${format}`;
  const { max_result_bytes: most = '0', ...settings } = statement.settings;
  const watch = watchFile(engine, path, { most: Number(most), signal });
  try {
    if (signal.aborted) throw new Refusal(QUERY_WAS_CANCELLED, 'QUERY_WAS_CANCELLED', 'Query was cancelled');
    await engine.run({ ...statement, sql, data: undefined, settings });
    const file = await open(path);
    const bytes = (await file.stat()).size;
    // It has no name any more, and is gone when it is closed.
    if (Number(most) === 0 || bytes <= Number(most)) return { file, bytes };
    await file.close();
    throw tooLarge(most);
  } catch (error) {
    throw watch.isTooLarge() ? tooLarge(most) : error;
  } finally {
    watch.stop();
    await rm(path, { force: true });
  }
}

function splitFormat({ sql, format }: Statement): { query: string; format: string } {
  const named = /\bformat\s+(?<format>\w+)\s*;?\s*$/i.exec(sql);
  return named ? { query: sql.slice(0, named.index), format: named.groups!.format! } : { query: sql, format };
}

// The engine limits what it answers, not what it writes to a file. A statement that has not begun can't be ended, so that is
// tried again until it has ended.
function watchFile(engine: Engine, path: string, { most, signal }: { most: number; signal: AbortSignal }) {
  let isTooLarge = false;
  const timer = setInterval(() => {
    if (signal.aborted || isTooLarge) return void engine.run(killing(path)).catch(() => {});
    if (most === 0) return;
    stat(path).then(
      ({ size }) => (isTooLarge ||= size > most),
      () => {},
    );
  }, LOOK_EVERY_MS);
  return { isTooLarge: () => isTooLarge, stop: () => clearInterval(timer) };
}

function killing(path: string): Statement {
  const sql = `kill query where position(query, 'into outfile ''${path}''') > 0 and position(query, 'kill query') = 0 async`;
  return { sql, format: 'TabSeparated', settings: {}, parameters: {} };
}

function tooLarge(most: string): Refusal {
  return new Refusal(TOO_MANY_ROWS_OR_BYTES, 'TOO_MANY_ROWS_OR_BYTES', `Limit for result exceeded, max bytes: ${most}`);
}
