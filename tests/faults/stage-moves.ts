import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, copyFileSync, cpSync, mkdirSync, openSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../../apps/stack/process/home.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import type { Program } from '../../apps/stack/process/program.ts';
import type { Supervisor } from '../../apps/stack/process/supervisor.ts';
import type { Redis } from 'ioredis';
import { createDatabase, preparePostgres } from '../../apps/stack/servers/postgres.ts';
import { runOnce } from '../../apps/stack/servers/programs.ts';
import { copyPostgres } from '../helpers/postgres/copy-postgres.ts';
import { setRedisUsers } from '../helpers/redis-users.ts';
import { redisPassword } from './stage-programs.ts';
import { makeToken, type StageServers } from './stage-servers.ts';

/** What an operator does with the data of a stage's servers. The proxies stay as they are. */
export type Moves = {
  /** Brings the schemas to this version, while programs of the one before run. */
  migrate(): Promise<void>;
  /** Makes one more token for the stage's team, with all permissions that this version has. */
  makeToken(): Promise<string>;
  /** Gives Redis the users that the version of a checkout has. */
  setRedisUsers(root: string): Promise<void>;
  /** Dumps Postgres and restores it into a new cluster, which takes its place. Nothing may change meanwhile. */
  postgresToNewCluster(): Promise<void>;
  /** Keeps what Redis has on its disk; it is stopped for it and started again. */
  keepRedis(): Promise<void>;
  /** Redis dies, and comes back as it was when it was kept. */
  bringRedisBack(): Promise<void>;
  backUp(): Promise<void>;
  /** Replaces everything by the backup, and starts again; `stopped` is called once nothing answers. */
  restore(stopped: () => void): Promise<void>;
};

type Options = {
  folder: string;
  supervisor: Supervisor;
  started: StageServers;
  programs: Program[];
  /** A client of Redis itself. */
  admin: Redis;
};

const DATABASE = 'keytally';
const PASSWORDS = ['password', 'password-api', 'password-consumer'];

export function makeMoves(options: Options): Moves {
  const { folder, supervisor, started, admin } = options;
  const data = join(folder, 'redis');
  const kept = join(folder, 'redis-kept');
  const redis = () => serverOf(started, 'redis');
  return {
    migrate: () => migrate(started, started.servers.postgresUrl(DATABASE)),
    makeToken: () => makeToken(started.env),
    setRedisUsers: (root) => setRedisUsers(admin, redisPassword, root),
    postgresToNewCluster: () => postgresToNewCluster(options),
    async keepRedis() {
      await supervisor.remove('redis');
      rmSync(kept, { recursive: true, force: true });
      cpSync(data, kept, { recursive: true });
      await supervisor.add(redis());
    },
    async bringRedisBack() {
      await supervisor.remove('redis');
      empty(data);
      cpSync(kept, data, { recursive: true });
      await supervisor.add(redis());
    },
    backUp: () => runWithFile(options, 'backup', 'w'),
    restore: (stopped) => restore(options, stopped),
  };
}

async function postgresToNewCluster({ folder, supervisor, started }: Options): Promise<void> {
  // On the same disk, and with the same passwords.
  const home = join(folder, 'postgres');
  const fresh = join(home, 'moved');
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { mode: 0o711 });
  for (const name of PASSWORDS) copyFileSync(join(home, name), join(fresh, name));
  const [port = 0] = await freePorts(1);
  const server = await preparePostgres({ folder: fresh, port, throwAway: false });
  const name = 'postgres-moved';
  await supervisor.add({ ...server.program, name });
  await createDatabase(server, DATABASE);
  await migrate(started, server.url(DATABASE));
  await copyPostgres(started.servers.postgresUrl(DATABASE), server.url(DATABASE));
  await supervisor.remove(name);
  await supervisor.remove('postgres');
  rmSync(join(home, 'data'), { recursive: true });
  renameSync(join(fresh, 'data'), join(home, 'data'));
  await supervisor.add(serverOf(started, 'postgres'));
}

/** Stops everything, empties the servers, loads the backup, and starts everything again. */
async function restore(options: Options, stopped: () => void): Promise<void> {
  const { folder, supervisor, started, programs } = options;
  const servers = ['postgres', 'redis', 'clickhouse'];
  await Promise.all(programs.map(({ name }) => supervisor.remove(name)));
  stopped();
  await Promise.all(servers.map((name) => supervisor.remove(name)));
  rmSync(join(folder, 'postgres/data'), { recursive: true });
  for (const name of ['redis', 'clickhouse']) empty(join(folder, name));
  const { port } = serverOf(started, 'postgres');
  await preparePostgres({ folder: join(folder, 'postgres'), port, throwAway: false });
  await Promise.all(servers.map((name) => supervisor.add(serverOf(started, name))));
  await started.servers.createDatabase(DATABASE);
  await runWithFile(options, 'restore', 'r');
  await migrate(started, started.servers.postgresUrl(DATABASE));
  await Promise.all(programs.map((program) => supervisor.add({ ...program })));
}

/** Runs our command that writes or reads a backup, with the backup as its output or input. */
async function runWithFile({ folder, started }: Options, name: 'backup' | 'restore', how: 'r' | 'w'): Promise<void> {
  const file = openSync(join(folder, 'stage.backup'), how, 0o600);
  const log = openSync(join(folder, 'logs', `${name}.log`), 'a', 0o600);
  try {
    const child = spawn(process.execPath, [join(checkout, `apps/api/commands/${name}.ts`)], {
      env: { ...started.env, ...started.addresses },
      stdio: how === 'w' ? ['ignore', file, log] : [file, log, log],
    });
    const [code] = (await once(child, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`${name} ended with ${code}`);
  } finally {
    closeSync(file);
    closeSync(log);
  }
}

async function migrate({ env, servers }: StageServers, url: string): Promise<void> {
  const settings = { ...env, ...servers.rolePasswords, DATABASE_URL: url };
  await runOnce('apps/api/commands/migrate.ts', [], settings, new AbortController().signal);
}

// A new one each time: by it the supervisor tells a program that is added again from the one that it has stopped.
function serverOf({ servers }: StageServers, name: string): Program {
  return { ...servers.programs.find((program) => program.name === name)! };
}

/** Removes what is in a folder, which may be a disk of its own. */
function empty(folder: string): void {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
}
