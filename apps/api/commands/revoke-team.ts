import '../../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { connectPostgres, type Sql } from '../../../shared/stores/postgres.ts';
import { connectRedis, type ShardedRedis } from '../../../shared/stores/redis.ts';
import type { AuditResource } from '../resources/audit.ts';
import { revokeNextPage } from '../resources/revocations/job.ts';
import { beginTeamRevocation } from '../resources/revocations/team-revocation.ts';
import { isPostgresStale } from '../sync/stale-postgres.ts';
import { progressLine } from './tool.ts';

// Revokes everything that a team has given out: `npm run -s revoke-team -- --team NAME`. Run it again after a crash: it goes
// on where it was. If nobody does, the api finishes the work.

const OPERATION = 'npm run revoke-team';
const CONNECTED_WITHIN_MS = 5_000;
const names: Partial<Record<AuditResource, string>> = {
  access_token: 'access tokens',
  api_key: 'API keys',
  link_token: 'link tokens',
};

const team = readTeam();
if (!team) {
  console.error('name the team: npm run -s revoke-team -- --team NAME');
  process.exit(2);
}
const config = readConfigOrExit(programs.token);
const sql = connectPostgres(config.DATABASE_URL, { max: 2, statementTimeoutMs: 60_000, everyTeam: true });
const redis = connectRedis(config.REDIS_URL, makeLogger('revoke-team', 'silent'), systemClock);
try {
  process.exitCode = await revokeTeam(sql, redis, team);
} catch (error) {
  console.error(`revoke-team: ${(error as Error).message}. What is left is done by the api, or by this command again`);
  process.exitCode = 1;
} finally {
  await Promise.all([sql.end({ timeout: 5 }), redis.close()]);
}

async function revokeTeam(sql: Sql, redis: ShardedRedis, name: string): Promise<number> {
  const [found] = await sql<{ id: string }[]>`select id from teams where name = ${name}`;
  if (!found) {
    console.error(`there is no team named ${name}`);
    return 2;
  }
  const reachable = await redis.connected(CONNECTED_WITHIN_MS).then(
    () => true,
    () => false,
  );
  if (reachable && (await isPostgresStale(sql, redis)))
    throw new Error('Postgres was restored from a backup and is older than Redis: run `npm run restored` first');
  const begun = await beginTeamRevocation(sql, found.id, OPERATION);
  console.log(
    (begun.since ? `going on with what was begun at ${begun.since.toISOString()}; ` : '') +
      `the api refuses every access token of ${name} made until now; ${begun.signingKeys} signing keys ended`,
  );
  if (!reachable) throw new Error('Redis does not answer, so verify goes on until it does');
  const done = await revokePages(sql, redis, begun.id);
  console.log(`everything of ${name} is revoked: ${done}`);
  return 0;
}

async function revokePages(sql: Sql, redis: ShardedRedis, revocationId: number): Promise<string> {
  const done = new Map(Object.values(names).map((what) => [what, 0]));
  const say = () => [...done].map(([what, count]) => `${count} ${what}`).join(', ');
  const progress = progressLine();
  for (;;) {
    const page = await revokeNextPage(sql, redis, revocationId);
    if (!page) break;
    for (const { resource } of page) done.set(names[resource]!, (done.get(names[resource]!) ?? 0) + 1);
    progress.show(say);
  }
  progress.end();
  return say();
}

// undefined if the command line is wrong.
function readTeam(): string | undefined {
  try {
    return parseArgs({ options: { team: { type: 'string' } } }).values.team;
  } catch {
    return undefined;
  }
}
