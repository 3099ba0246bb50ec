import '../../../shared/runtime/require-node.ts';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { beginTeamRevocation, revokePages } from '../resources/revocations/revocations.ts';
import type { Recorded, AuditResource } from '../resources/record.ts';
import { isPostgresStale } from '../sync/sweeper.ts';
import { progressLine, readTeam, runCommand, withPostgres, withRedis } from './tool.ts';

// Revokes everything that a team has given out: `npm run -s revoke-team -- --team NAME`. Run it again after a crash: it does what
// is left.

const CONNECTED_WITHIN_MS = 5_000;
const names: Partial<Record<AuditResource, string>> = {
  access_token: 'access tokens',
  api_key: 'API keys',
  link_token: 'link tokens',
};

const team = readTeam(process.argv.slice(2));
if (!team) {
  console.error('name the team: npm run -s revoke-team -- --team NAME');
  process.exit(2);
}
const config = readConfigOrExit(programs.token);
await runCommand('revoke-team', () =>
  withRedis('revoke-team', config.REDIS_URL, CONNECTED_WITHIN_MS, (redis, isReachable) =>
    withPostgres(config.DATABASE_URL, (sql) => revokeTeam(sql, isReachable ? redis : undefined, team)),
  ).catch((error: Error) => {
    throw new Error(`${error.message}. Run it again: it does what is left`, { cause: error });
  }),
);

async function revokeTeam(sql: Sql, redis: ShardedRedis | undefined, name: string): Promise<number> {
  const [found] = await sql<{ id: string }[]>`select id from teams where name = ${name}`;
  if (!found) {
    console.error(`there is no team named ${name}`);
    return 2;
  }
  if (redis && (await isPostgresStale(sql, redis)))
    throw new Error('Postgres was restored from a backup and is older than Redis: run `npm run restored` first');
  const origin = { teamId: found.id, tokenId: null, operation: 'npm run revoke-team', requestId: null };
  const signingKeys = await beginTeamRevocation(sql, origin);
  console.log(`the api refuses every access token of ${name} made until now; ${signingKeys} signing keys ended`);
  if (!redis) throw new Error('Redis does not answer, so verify goes on until it does');
  const done = await revokeAll(revokePages(sql, redis, origin));
  console.log(`everything of ${name} is revoked: ${done}`);
  return 0;
}

async function revokeAll(pages: AsyncIterable<Recorded[]>): Promise<string> {
  const done = new Map(Object.values(names).map((what) => [what, 0]));
  const say = () => [...done].map(([what, count]) => `${count} ${what}`).join(', ');
  const progress = progressLine();
  for await (const page of pages) {
    for (const { resource } of page) done.set(names[resource]!, (done.get(names[resource]!) ?? 0) + 1);
    progress.show(say);
  }
  progress.end();
  return say();
}
