import { spawn } from 'node:child_process';
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { StackError } from '../process/errors.ts';
import { checkout, findSupervisor, masterKeyFile, readEnvFile, type Home } from '../process/home.ts';
import { programEnvironment } from '../servers/programs.ts';

/** Writes a backup of the running stack to a file. Under its name the file is whole or not there. */
export async function backUp(home: Home, name: string): Promise<number> {
  if (name === '') throw new StackError('name the file to write: make backup FILE=keytally.backup');
  if (!findSupervisor(home)) throw new StackError(`no stack runs in ${home.folder}: start it with make up`);
  const file = resolve(name);
  if (existsSync(file)) throw new StackError(`${file} is there already: name another file`);
  const partial = `${file}.partial`;
  const out = openSync(partial, 'w', 0o600);
  try {
    const { DATABASE_URL = '', REDIS_URL = '', CLICKHOUSE_URL = '' } = readEnvFile(home);
    const child = spawn(process.execPath, [join(checkout, 'apps/api/commands/backup.ts')], {
      env: programEnvironment(home, { DATABASE_URL, REDIS_URL, CLICKHOUSE_URL }),
      stdio: ['ignore', out, 'inherit'],
    });
    const code = await new Promise<number | null>((done, failed) => {
      child.once('exit', done);
      child.once('error', failed);
    });
    if (code !== 0) return code ?? 1;
    fsyncSync(out);
    renameSync(partial, file);
  } finally {
    closeSync(out);
    rmSync(partial, { force: true });
  }
  console.log(`in ${file} (${(statSync(file).size / 1e6).toFixed(1)} MB)`);
  console.log(
    `The master key is not in it. Keep a copy of ${masterKeyFile(home)} in another place: signing keys can't be read without it.`,
  );
  return 0;
}
