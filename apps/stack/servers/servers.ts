import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { clickhouseProgram } from './clickhouse-program.ts';
import { keepPassword } from '../process/home.ts';
import { createDatabase, preparePostgres, type Role } from './postgres.ts';
import type { Program } from '../process/program.ts';
import { ensureRedis, redisProgram } from './redis.ts';

export interface ServerPorts {
  postgres: number;
  redis: number;
  clickhouse: number;
}

export interface Servers {
  programs: Program[];
  postgresUrl: (database: string, role?: Role) => string;
  /** The passwords that the migrations set for the programs' roles. */
  rolePasswords: Record<`${'API' | 'CONSUMER' | 'WEBHOOKS'}_DATABASE_PASSWORD`, string>;
  createDatabase: (name: string) => Promise<void>;
  redisUrl: string;
  clickhouseUrl: string;
}

interface Options {
  folder: string;
  ports: ServerPorts;
  /** For tests: faster, but data is lost with the machine. */
  throwAway?: boolean;
  say?: (line: string) => void;
}

/** Prepares a folder in which PostgreSQL, Redis and ClickHouse can start. */
export async function prepareServers({ folder, ports, throwAway = false, say = () => {} }: Options): Promise<Servers> {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  const binary = await ensureRedis(say);
  const postgres = await preparePostgres({ folder: join(folder, 'postgres'), port: ports.postgres, throwAway });
  // A slow disk holds Redis up, and so whoever waits for it.
  const settings = throwAway ? { appendfsync: 'no' } : {};
  const passwords = {
    redis: keepPassword(join(folder, 'redis-password')),
    clickhouse: keepPassword(join(folder, 'clickhouse-password')),
  };
  const redis = redisProgram({
    binary,
    folder: join(folder, 'redis'),
    port: ports.redis,
    password: passwords.redis,
    settings,
  });
  const clickhouse = clickhouseProgram({
    folder: join(folder, 'clickhouse'),
    port: ports.clickhouse,
    password: passwords.clickhouse,
  });
  return {
    programs: [postgres.program, redis, clickhouse],
    postgresUrl: postgres.url,
    rolePasswords: {
      API_DATABASE_PASSWORD: postgres.passwords.keytally_api,
      CONSUMER_DATABASE_PASSWORD: postgres.passwords.keytally_consumer,
      WEBHOOKS_DATABASE_PASSWORD: postgres.passwords.keytally_webhooks,
    },
    createDatabase: (name) => createDatabase(postgres, name),
    redisUrl: `redis://:${passwords.redis}@127.0.0.1:${ports.redis}`,
    clickhouseUrl: `http://default:${passwords.clickhouse}@127.0.0.1:${ports.clickhouse}`,
  };
}
