import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const program = `process.stdout.write(require('chdb').query(process.argv[1], 'JSONEachRow'))`;

/**
 * The columns of an answer that is a Parquet file, with their types, and the rows of a query on it, in which it is `answer`. The run's
 * ClickHouse reads no files, so this asks an engine in a process of its own.
 */
export async function readParquet(answer: Response) {
  const folder = process.env.TEST_FOLDER!;
  const file = join(folder, 'answer.parquet');
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, Buffer.from(await answer.arrayBuffer()));
  // oxlint-disable-next-line no-explicit-any -- rows of any query
  const ask = async (sql: string): Promise<any[]> => {
    const query = sql.replace('answer', `file('${file}', Parquet)`);
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', program, query]);
    return stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  };
  return { types: (await ask('describe answer')).map(({ name, type }) => `${name} ${type}`), ask };
}
