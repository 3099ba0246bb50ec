import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { checkout } from '../../apps/stack/process/home.ts';

/** Gives a Redis the users of the programs, as `sql/redis/users.conf` of a checkout has them. */
export async function setRedisUsers(
  admin: Redis,
  passwordOf: (user: string) => string,
  root: string = checkout,
): Promise<void> {
  const lines = readFileSync(join(root, 'sql/redis/users.conf'), 'utf8').split('\n');
  for (const line of lines.filter((one) => one.startsWith('user '))) {
    // A selector in brackets is one word.
    const [name = '', , ...rules] = line.slice('user '.length).match(/\([^)]*\)|\S+/g)!;
    await admin.call('ACL', 'SETUSER', name, 'reset', 'on', `>${passwordOf(name)}`, ...rules);
  }
}

/** What Redis has refused to its users. */
export async function redisRefusals(admin: Redis): Promise<string[]> {
  const log = (await admin.call('ACL', 'LOG')) as unknown[][];
  return log.map((entry) => entry.slice(4, 12).join(' '));
}
