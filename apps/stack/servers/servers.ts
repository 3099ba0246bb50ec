import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { clickhouseProgram } from './clickhouse-program.ts';
import { users as clickhouseUsers, type User as ClickHouseUser } from './clickhouse/users.ts';
import { keepPassword } from '../process/home.ts';
import { createDatabase, preparePostgres, type Role } from './postgres.ts';
import type { Program } from '../process/program.ts';
import { ensureRedis, redisProgram, redisUsers, type RedisUser } from './redis.ts';

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
  /** As one of its users, or as its owner, who may do everything. */
  redisUrl: string;
  redisUrlOf: (user: RedisUser) => string;
  clickhouseUrl: string;
  clickhouseUrlOf: (user: ClickHouseUser) => string;
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
  const keep = (name: string) => keepPassword(join(folder, `${name}-password`));
  const ownerOfRedis = keep('redis');
  const ofRedis = passwordsOf(redisUsers, (user) => keep(`redis-${user}`));
  const ofClickHouse = passwordsOf(clickhouseUsers, (user) => keep(`clickhouse-${user}`));
  const redis = redisProgram({
    binary,
    folder: join(folder, 'redis'),
    port: ports.redis,
    password: ownerOfRedis,
    users: ofRedis,
    settings,
  });
  const clickhouse = clickhouseProgram({
    folder: join(folder, 'clickhouse'),
    port: ports.clickhouse,
    passwords: ofClickHouse,
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
    redisUrl: `redis://:${ownerOfRedis}@127.0.0.1:${ports.redis}`,
    redisUrlOf: (user) => `redis://${user}:${ofRedis[user]}@127.0.0.1:${ports.redis}`,
    clickhouseUrl: clickhouseUrlOf('keytally'),
    clickhouseUrlOf,
  };

  function clickhouseUrlOf(user: ClickHouseUser): string {
    return `http://${user}:${ofClickHouse[user]}@127.0.0.1:${ports.clickhouse}`;
  }
}

function passwordsOf<User extends string>(users: readonly User[], keep: (user: User) => string): Record<User, string> {
  return Object.fromEntries(users.map((user) => [user, keep(user)])) as Record<User, string>;
}
