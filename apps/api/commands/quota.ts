import '../../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { quotaNames, storedQuotas, type QuotaName, type StoredQuota } from '../../../shared/contract/quotas.ts';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { connectPostgres, type Transaction } from '../../../shared/stores/postgres.ts';
import { connectRedis } from '../../../shared/stores/redis.ts';
import { recordAudit } from '../resources/audit.ts';
import { quotasOf, readQuotas } from '../resources/quotas.ts';
import type { Change, StoredChange } from '../sync/change.ts';
import { applyChanges, recordChanges } from '../sync/sync.ts';

// Shows or changes the quotas of a team: `npm run -s quota -- --team NAME [keys=5000 workspaces=default …]`.
const MOST = 1_000_000_000_000_000;
const MOST_PER_SECOND = 1_000_000;
const TOKENS_AT_ONCE = 5_000;

type Wanted = { team: string; changes: [QuotaName, number | undefined][] };

const wanted = readWanted();
if (typeof wanted === 'string') {
  console.error(wanted);
  process.exit(2);
}

const config = readConfigOrExit(programs.quota);
const sql = connectPostgres(config.DATABASE_URL, { max: 2, everyTeam: true });
const [team] = await sql<{ id: string }[]>`select id from teams where name = ${wanted.team} or id = ${wanted.team}`;
if (!team) console.error(`there is no team ${wanted.team}`);
else {
  if (wanted.changes.length > 0) await bringIntoForce(await sql.begin((tx) => change(tx, team.id, wanted.changes)));
  const { limits, own, used } = await readQuotas(sql, team.id, quotasOf(config));
  for (const name of quotaNames) {
    const of = (storedQuotas as readonly string[]).includes(name) ? `${used[name as StoredQuota]} of ` : '';
    console.log(`${name.padEnd(18)} ${of}${limits[name]}${name in own ? '' : ' (default)'}`);
  }
}
await sql.end();
process.exitCode = team ? 0 : 1;

/** Stores the team's own limits. Its tokens change with them: their records in Redis tell verify the team's limit. */
async function change(tx: Transaction, teamId: string, changes: Wanted['changes']): Promise<StoredChange[][]> {
  // The lock: of two commands at once, the second changes what the first has stored.
  await tx`insert into team_quotas (team_id, limits) values (${teamId}, '{}') on conflict (team_id) do nothing`;
  const [{ before }] = await tx<[{ before: Record<string, number> }]>`
    select limits as before from team_quotas where team_id = ${teamId} for update`;
  const merged = { ...before, ...Object.fromEntries(changes) };
  const after = Object.fromEntries(Object.entries(merged).filter(([, limit]) => limit !== undefined));
  await tx`update team_quotas set limits = ${tx.json(after)}, updated_at = now() where team_id = ${teamId}`;
  const origin = { teamId, tokenId: null, operation: 'npm run quota', requestId: null };
  await recordAudit(tx, origin, [{ resource: 'quota', id: teamId, before, after }]);
  if (!changes.some(([name]) => name === 'verify_per_second')) return [];
  const pages: StoredChange[][] = [];
  for (let after = ''; ;) {
    const tokens = await tx<{ id: string; shard: number }[]>`
      select id, shard from access_tokens where team_id = ${teamId} and revoked_at is null and id > ${after}
      order by id limit ${TOKENS_AT_ONCE}`;
    const changed = tokens.map(({ id, shard }): Change => ({ kind: 'token', entityId: id, shard }));
    const ids = await recordChanges(tx, changed);
    pages.push(changed.map((one, i) => ({ ...one, id: ids[i]! })));
    if (tokens.length < TOKENS_AT_ONCE) return pages;
    after = tokens.at(-1)!.id;
  }
}

// In force at once if Redis is available; else the sweeper brings it into force once Redis is back.
async function bringIntoForce(pages: StoredChange[][]): Promise<void> {
  if (pages.length === 0) return;
  const redis = connectRedis(config.REDIS_URL, makeLogger('quota', 'silent'));
  await redis
    .connected(2_000)
    .then(async () => {
      for (const page of pages) await applyChanges(sql, redis, page);
    })
    .catch(() => {});
  await redis.close();
}

// What is wrong with the command line, if anything is.
function readWanted(): Wanted | string {
  const usage = `name the team and, to change them, its quotas: npm run -s quota -- --team NAME [keys=5000 workspaces=default …], of ${quotaNames.join(', ')}`;
  try {
    const { values, positionals } = parseArgs({ options: { team: { type: 'string' } }, allowPositionals: true });
    if (!values.team) return usage;
    const changes = positionals.map((text): [QuotaName, number | undefined] => {
      const [name = '', value = ''] = text.split('=');
      if (!(quotaNames as readonly string[]).includes(name)) throw new Error(`there is no quota ${name}`);
      const [least, most] = name.endsWith('_per_second') ? [1, MOST_PER_SECOND] : [0, MOST];
      if (value === 'default') return [name as QuotaName, undefined];
      const number = /^\d{1,16}$/.test(value) ? Number(value) : NaN;
      if (!(number >= least && number <= most))
        throw new Error(`${name} is a whole number from ${least} to ${most}, or default`);
      return [name as QuotaName, number];
    });
    return { team: values.team, changes };
  } catch (error) {
    return `${(error as Error).message}; ${usage}`;
  }
}
