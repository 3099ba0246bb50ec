import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Sql } from 'postgres';
import postgres from '../../../shared/stores/postgres-driver.ts';
import { eventually } from '../eventually.ts';
import type { World } from '../world.ts';

// A world's Postgres, restored from a backup that is older than its Redis.

/** Copies the database of a world as it is now, as a template. */
export async function backUp(world: World): Promise<void> {
  await onServer(world, async (server, name) => {
    await disconnect(server, name);
    await server`create database ${server(`${name}_backup`)} template ${server(name)}`;
    await server`alter database ${server(name)} with allow_connections true`;
  });
}

/** Replaces the database by the copy. */
export async function restore(world: World): Promise<void> {
  await onServer(world, async (server, name) => {
    await server`drop database ${server(name)} with (force)`;
    await server`create database ${server(name)} template ${server(`${name}_backup`)}`;
    await server`drop database ${server(`${name}_backup`)}`;
  });
}

/** Runs the command that decides what was changed since, as the schemas' owner if no other user is named; gives what it printed. */
export async function runRestored(world: World, databaseUrl = world.env.DATABASE_URL): Promise<string> {
  const command = join(import.meta.dirname, '../../../apps/api/commands/restored.ts');
  const env = { ...process.env, ...world.env, DATABASE_URL: databaseUrl };
  return (await promisify(execFile)(process.execPath, [command], { env })).stdout;
}

async function onServer(world: World, work: (server: Sql, name: string) => Promise<void>): Promise<void> {
  const url = new URL(world.env.DATABASE_URL!);
  const name = url.pathname.slice(1);
  url.pathname = '/postgres';
  const server = postgres(url.href, { max: 1, onnotice: () => {} });
  await work(server, name);
  await server.end();
}

// Postgres copies a database only without connections to it, and our programs reconnect at once unless they may not.
async function disconnect(server: Sql, name: string): Promise<void> {
  await server`alter database ${server(name)} with allow_connections false`;
  await server`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`;
  await eventually('nobody is connected', async () => {
    const rows = await server`select from pg_stat_activity where datname = ${name}`;
    return rows.length === 0;
  });
}
