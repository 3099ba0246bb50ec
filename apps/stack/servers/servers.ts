import { mkdirSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { keepPassword } from '../process/home.ts';
import type { Program } from '../process/program.ts';
import { clickhouseProgram } from './clickhouse-program.ts';
import { createDatabase, preparePostgres } from './postgres.ts';
import { ensureRedis, redisProgram } from './redis.ts';

/** What the environment of a program calls the address of each server, its owner there, and which programs have a user of their own. */
const servers = {
  postgres: { variable: 'DATABASE_URL', owner: 'keytally', programs: ['api', 'consumer', 'webhooks'] },
  redis: { variable: 'REDIS_URL', owner: 'default', programs: ['api', 'verify', 'consumer', 'relay'] },
  clickhouse: { variable: 'CLICKHOUSE_URL', owner: 'keytally', programs: ['api', 'consumer'] },
} as const;
type Name = keyof typeof servers;

export type ServerPorts = Record<Name, number>;
/** Where the servers are. */
export type Addresses = Record<(typeof servers)[Name]['variable'], string>;

export type Servers = Awaited<ReturnType<typeof prepareServers>>;

interface Options {
  folder: string;
  ports: ServerPorts;
  /** For tests: faster, but data is lost with the machine. */
  throwAway?: boolean;
  say?: (line: string) => void;
}

/** Prepares a folder in which PostgreSQL, Redis and ClickHouse can start. */
export async function prepareServers({ folder, ports, throwAway = false, say = () => {} }: Options) {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  const binary = await ensureRedis(say);
  const passwordsOf = (server: Name): Record<string, string> => {
    const { owner, programs } = servers[server];
    const users = [owner, ...programs.map((program) => `keytally_${program}`)];
    return Object.fromEntries(users.map((user) => [user, keepPassword(join(folder, `${server}-${user}-password`))]));
  };
  const passwords = {
    postgres: passwordsOf('postgres'),
    redis: passwordsOf('redis'),
    clickhouse: passwordsOf('clickhouse'),
  };
  const addresses: {
    (database: string): Addresses;
    (database: string, program: string): Partial<Addresses>;
  } = (database: string, program?: string) =>
    Object.fromEntries(
      Object.entries(servers).flatMap(([server, { variable, owner, programs }]) => {
        if (program && !(programs as readonly string[]).includes(program)) return [];
        const name = server as Name;
        const user = program ? `keytally_${program}` : owner;
        const scheme = name === 'clickhouse' ? 'http' : name;
        const url = `${scheme}://${user}:${passwords[name][user]}@127.0.0.1:${ports[name]}`;
        return [[variable, name === 'redis' ? url : `${url}/${database}`]];
      }),
    ) as Addresses;
  const postgresUrl = addresses('postgres').DATABASE_URL;
  const own = (server: Name) => ({ folder: join(folder, server), port: ports[server], passwords: passwords[server] });
  const postgres = await preparePostgres({ folder: own('postgres').folder, url: postgresUrl, throwAway });
  // A slow disk holds Redis up, and so whoever waits for it. While it writes its file again it may need its memory twice.
  const settings = throwAway ? { appendfsync: 'no' } : { maxmemory: Math.floor(totalmem() / 2) };
  const redis = redisProgram({ binary, ...own('redis'), settings });
  return {
    programs: [byTestClock(postgres), byTestClock(redis), clickhouseProgram(own('clickhouse'))],
    /** Their addresses as their owner, who may do everything; of a program, those that it has a user on. */
    addresses,
    /** The passwords that the migrations set for the programs' roles: API_DATABASE_PASSWORD and others. */
    rolePasswords: Object.fromEntries(
      servers.postgres.programs.map((program) => [
        `${program.toUpperCase()}_DATABASE_PASSWORD`,
        passwords.postgres[`keytally_${program}`]!,
      ]),
    ),
    createDatabase: (name: string) => createDatabase(postgresUrl, name),
  };
}

// Where a clock that can be moved is preloaded (docs/testing.md), the servers live by it as our programs do.
function byTestClock(program: Program): Program {
  const { LD_PRELOAD, TEST_CLOCK_FILE } = process.env;
  return TEST_CLOCK_FILE && LD_PRELOAD ? { ...program, env: { ...program.env, LD_PRELOAD, TEST_CLOCK_FILE } } : program;
}
