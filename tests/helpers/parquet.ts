import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const program = `process.stdout.write(require('chdb').query(process.argv[1], 'JSONEachRow'))`;

/** The rows of a query on a file. The run's ClickHouse reads no files, so this asks an engine in a process of its own. */
// oxlint-disable-next-line no-explicit-any -- rows of any query
export async function readFileRows(sql: string): Promise<any[]> {
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', program, sql]);
  return stdout.trim() === ''
    ? []
    : stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
}
