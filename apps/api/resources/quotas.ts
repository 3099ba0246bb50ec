import { Type, type Static } from 'typebox';
import { ApiError } from '../../../shared/contract/errors.ts';
import {
  goesByItself,
  quotaNames,
  quotaTexts,
  storedQuotas,
  type QuotaName,
  type Quotas,
  type StoredQuota,
} from '../../../shared/contract/quotas.ts';
import { named, object, count, whole } from '../../../shared/contract/schema-kinds.ts';
import type { Config } from '../../../shared/runtime/variables.ts';
import { PostgresError, type Query } from '../../../shared/stores/postgres.ts';

const limit = count('how many the team may have', 1_000);
const used = whole('how many it has', 12);
const isStored = (name: QuotaName): name is StoredQuota => (storedQuotas as readonly string[]).includes(name);
const of = (name: QuotaName) =>
  Type.Object(isStored(name) ? { limit, used } : { limit }, {
    additionalProperties: false,
    description: quotaTexts[name],
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

type QuotaConfig = Pick<Config, `QUOTA_${Uppercase<QuotaName>}`>;

/** The operator's quotas, for teams that have no limits of their own. */
export function quotasOf(config: QuotaConfig): Quotas {
  const entries = quotaNames.map((name) => [name, config[`QUOTA_${name.toUpperCase() as Uppercase<QuotaName>}`]]);
  return Object.fromEntries(entries) as Quotas;
}

/** A team's limits, and what it has of what is stored. */
export async function readQuotas(sql: Query, teamId: string, defaults: Quotas) {
  const [row] = await sql<{ used: Record<StoredQuota, number> | null; limits: Partial<Quotas> | null }[]>`
    select (select to_jsonb(u) - 'team_id' from team_usage u where u.team_id = ${teamId}) as used,
           (select q.limits from team_quotas q where q.team_id = ${teamId}) as limits`;
  const none = Object.fromEntries(storedQuotas.map((name) => [name, 0])) as Record<StoredQuota, number>;
  return { limits: { ...defaults, ...row?.limits }, own: row?.limits ?? {}, used: row?.used ?? none };
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
    `The quota ${name} (${quotaTexts[quota]}) is used up: the limit is ${limit}, the team has ${used}, and this would add ${added}. ` +
    `Nothing was stored. ${goesByItself.has(quota) ? 'Wait until earlier ones are gone' : 'Delete what is no longer needed'}, or ask the operator for more.`;
  return new ApiError('quota_exceeded', { message, details: [{ path: name, message: `is ${used} of ${limit}` }] });
}

function nameInAnswers(quota: QuotaName): string {
  return quota.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}
