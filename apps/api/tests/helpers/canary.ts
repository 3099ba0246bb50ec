import { execFileSync, spawnSync } from 'node:child_process';
import type { Redis } from 'ioredis';
import type { Books } from '../../../../shared/stores/clickhouse.ts';
import type { Sql } from '../../../../shared/stores/postgres.ts';

/**
 * The forms in which a secret could be stored: its secret part (without a key's prefix or a JWT's header) as it is, in
 * hex, and in base64.
 */
export function formsOf(secret: string): string[] {
  const text = secret.startsWith('eyJ') ? secret.split('.').at(-1)! : secret.slice(secret.lastIndexOf('_') + 1);
  const bytes = Buffer.from(text);
  // Base64 encodes three bytes at a time: cut at each of the three offsets, so that neighbouring bytes do not matter.
  const base64 = [0, 1, 2].map((skip) => bytes.subarray(skip, skip + 24).toString('base64url'));
  return [text, bytes.toString('hex'), ...base64];
}

/** The content of all the application's tables, as text. */
export async function textOfPostgres(sql: Sql): Promise<string> {
  const tables = await sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = 'public'`;
  const parts = await Promise.all(
    tables.map(({ name }) => sql<{ row: string }[]>`select t::text as row from ${sql(name)} t`),
  );
  return parts.flatMap((rows) => rows.map(({ row }) => row)).join('\n');
}

const readers: Record<string, (redis: Redis, name: string) => Promise<unknown>> = {
  string: (redis, name) => redis.get(name),
  hash: (redis, name) => redis.hgetall(name),
  stream: (redis, name) => redis.xrange(name, '-', '+'),
  zset: (redis, name) => redis.zrange(name, '0', '-1'),
  // The name expired meanwhile.
  none: () => Promise.resolve(''),
};

/** The content of a Redis database, as text. */
export async function textOfRedis(redis: Redis): Promise<string> {
  const parts: string[] = [];
  for await (const batch of redis.scanStream({ count: 1000 })) {
    for (const name of batch as string[]) {
      const read = readers[await redis.type(name)];
      if (!read) throw new Error(`${name} is of a type that is not searched`);
      parts.push(name, JSON.stringify(await read(redis, name)));
    }
  }
  return parts.join('\n');
}

/** The content of the books, as text. */
export async function textOfBooks({ client }: Books): Promise<string> {
  const tables = await client.query({ query: 'show tables', format: 'JSONEachRow' });
  const parts = (await tables.json<{ name: string }>()).map(async ({ name }) => {
    return (await client.query({ query: `select * from ${name}`, format: 'JSONEachRow' })).text();
  });
  return (await Promise.all(parts)).join('\n');
}

/** The files in some places that contain one of some texts: logs, data and write-ahead logs of servers. */
export function filesWith(places: string[], texts: string[]): string[] {
  // The texts come through a pipe: as arguments they would be in the list of processes.
  const found = spawnSync('grep', ['-rlaF', '-f', '-', ...places], {
    input: `${texts.join('\n')}\n`,
    encoding: 'utf8',
  });
  if (found.error) throw found.error;
  // Exit code 2 only says that a file disappeared meanwhile.
  return found.stdout.split('\n').filter(Boolean);
}

/** What a list of processes shows: all command lines, and the environments that we may read. */
export function textOfProcesses(): string {
  return execFileSync('ps', ['axeww', '-o', 'args='], { encoding: 'latin1', maxBuffer: 1e9 });
}
