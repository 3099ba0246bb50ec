import { Type, type Static } from 'typebox';
import { ApiError } from '../../../shared/contract/errors.ts';
import { named, object, count, whole } from '../../../shared/contract/schema-kinds.ts';
import type { Config } from '../../../shared/runtime/variables.ts';
import { PostgresError, type Query, type Transaction } from '../../../shared/stores/postgres.ts';
import { parseArgs } from 'node:util';
import type { StoredChange } from '../sync/change.ts';
import { storeRecorded, type Recorded } from './record.ts';

// What a team may have at most, for people: stored things, which its counters in Postgres (team_usage) count, and requests per second.
const texts = {
  workspaces: 'workspaces that are not deleted',
  keys: 'API keys that are not deleted',
  scopes: 'scopes that are not deleted, of all workspaces',
  access_tokens: 'access tokens that are not revoked',
  billing_records: 'billing records, also those of deleted workspaces',
  stored_bytes:
    'bytes that all of these take, also deleted keys, whose records stay, and grants, refills and adjustments',
  link_tokens: 'link tokens, also revoked ones, until 30 days after they expire',
  kept_answer_bytes: 'bytes that the answers kept under Idempotency-Keys take, each for 24 hours',
  verify_per_second: 'verifications per second, on each process',
  api_per_second: 'management calls per second, on each process',
};
// What a team can't delete: it goes by itself, after its time.
const goesByItself: readonly QuotaName[] = ['link_tokens', 'kept_answer_bytes'];

type QuotaName = keyof typeof texts;
type StoredQuota = Exclude<QuotaName, `${string}_per_second`>;
export type Quotas = Record<QuotaName, number>;
export const quotaNames = Object.keys(texts) as QuotaName[];

const limit = count('how many the team may have', 1_000);
const used = whole('how many it has', 12);
const isStored = (name: QuotaName): name is StoredQuota => !name.endsWith('_per_second');
const of = (name: QuotaName) =>
  Type.Object(isStored(name) ? { limit, used } : { limit }, {
    additionalProperties: false,
    description: texts[name],
  });

/** A team's limits and present use as the API answers them. */
export const quota = named(
  'Quota',
  object(Object.fromEntries(quotaNames.map((name) => [nameInAnswers(name), of(name)]))),
);

/** A team's quotas in an answer; `used` is of what is stored. */
export function presentQuotas({ limits, used }: Pick<Awaited<ReturnType<typeof readQuotas>>, 'limits' | 'used'>) {
  const entries = quotaNames.map((name) => [
    nameInAnswers(name),
    { limit: limits[name], ...(isStored(name) && { used: used[name] }) },
  ]);
  return Object.fromEntries(entries) as Static<typeof quota>;
}

/** Has no quota refuse what the transaction stores from now on: what the team was promised, whatever it has by now. */
export async function liftQuotas(sql: Query): Promise<void> {
  await sql`select set_config('keytally.quotas', '', true)`;
}

type QuotaConfig = Pick<Config, `QUOTA_${Uppercase<QuotaName>}`>;

/** The operator's quotas, for teams that have no limits of their own. */
export function quotasOf(config: QuotaConfig): Quotas {
  const entries = quotaNames.map((name) => [name, config[`QUOTA_${name.toUpperCase() as Uppercase<QuotaName>}`]]);
  return Object.fromEntries(entries) as Quotas;
}

/** A team's limits, and what it has of what is stored. */
export async function readQuotas(sql: Query, teamId: string, defaults: Quotas) {
  const [row] = await sql<{ used: Record<StoredQuota, number> | null; limits: Partial<Quotas> | null }[]>`
    select (select u.used from team_usage u where u.team_id = ${teamId}) as used,
           (select q.limits from team_quotas q where q.team_id = ${teamId}) as limits`;
  const none = Object.fromEntries(quotaNames.filter(isStored).map((name) => [name, 0])) as Record<StoredQuota, number>;
  return { limits: { ...defaults, ...row?.limits }, own: row?.limits ?? {}, used: { ...none, ...row?.used } };
}

/** Turns Postgres's refusal of a write beyond a quota into its 403; leaves every other error as it is. */
export function asQuotaExceeded(error: unknown): unknown {
  if (!(error instanceof PostgresError) || error.code !== 'KQ403') return error;
  const { quota, limit, used, added } = JSON.parse(error.detail!) as {
    quota: StoredQuota;
    limit: number;
    used: number;
    added: number;
  };
  const name = nameInAnswers(quota);
  const message =
    `The quota ${name} (${texts[quota]}) is used up: the limit is ${limit}, the team has ${used}, and this would add ${added}. ` +
    `Nothing was stored. ${goesByItself.includes(quota) ? 'Wait until earlier ones are gone' : 'Delete what is no longer needed'}, or ask the operator for more.`;
  return new ApiError('quota_exceeded', { message, details: [{ path: name, message: `is ${used} of ${limit}` }] });
}

function nameInAnswers(quota: QuotaName): string {
  return quota.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

// What the operator's command does (apps/api/commands/quota.ts).

const MOST = 1_000_000_000_000_000;
const MOST_PER_SECOND = 1_000_000;

/** The team that a command line names, and the limits that it gives it: undefined is the default. */
export type WantedQuotas = { team: string; changes: [QuotaName, number | undefined][] };

/**
 * Stores the team's own limits. Its tokens change with them: their records in Redis tell verify the team's limit. Gives the changes to
 * bring into force.
 */
export async function changeQuotas(
  tx: Transaction,
  teamId: string,
  changes: WantedQuotas['changes'],
): Promise<StoredChange[]> {
  // The lock: of two commands at once, the second changes what the first has stored.
  await tx`insert into team_quotas (team_id, limits) values (${teamId}, '{}') on conflict (team_id) do nothing`;
  const [{ before }] = await tx<[{ before: Record<string, number> }]>`
    select limits as before from team_quotas where team_id = ${teamId} for update`;
  const merged = { ...before, ...Object.fromEntries(changes) };
  const after = Object.fromEntries(Object.entries(merged).filter(([, limit]) => limit !== undefined));
  await tx`update team_quotas set limits = ${tx.json(after)}, updated_at = now() where team_id = ${teamId}`;
  const isTold = changes.some(([name]) => name === 'verify_per_second');
  const tokens = await tx<{ id: string; shard: number }[]>`
    select id, shard from access_tokens where team_id = ${teamId} and revoked_at is null and ${isTold}`;
  const changed = tokens.map(({ id, shard }): Recorded => ({ resource: 'access_token', id, shards: [shard] }));
  const origin = { teamId, tokenId: null, operation: 'npm run quota', requestId: null };
  return storeRecorded(tx, origin, [{ resource: 'quota', id: teamId, before, after }, ...changed]);
}

/** A team's limits and what it has of each, a line for each. */
export async function describeQuotas(sql: Query, teamId: string, defaults: Quotas): Promise<string[]> {
  const { limits, own, used } = await readQuotas(sql, teamId, defaults);
  return quotaNames.map((name) => {
    const of = isStored(name) ? `${used[name]} of ` : '';
    return `${name.padEnd(18)} ${of}${limits[name]}${name in own ? '' : ' (default)'}`;
  });
}

/** Reads a command line; gives what is wrong with it, if anything is. */
export function readWantedQuotas(args: string[]): WantedQuotas | string {
  const usage = `name the team and, to change them, its quotas: npm run -s quota -- --team NAME [keys=5000 workspaces=default …], of ${quotaNames.join(', ')}`;
  try {
    const { values, positionals } = parseArgs({ args, options: { team: { type: 'string' } }, allowPositionals: true });
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
