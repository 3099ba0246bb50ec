/** What a team may have at most: stored things, which its counters in Postgres (team_usage) count, and requests per second. */
export const storedQuotas = [
  'workspaces',
  'keys',
  'scopes',
  'access_tokens',
  'billing_records',
  'stored_bytes',
  'link_tokens',
  'kept_answer_bytes',
] as const;
export const rateQuotas = ['verify_per_second', 'api_per_second'] as const;
export const quotaNames = [...storedQuotas, ...rateQuotas] as const;

/** What a team can't delete: it goes by itself, after its time. */
export const goesByItself: ReadonlySet<QuotaName> = new Set<QuotaName>(['link_tokens', 'kept_answer_bytes']);

export type StoredQuota = (typeof storedQuotas)[number];
export type QuotaName = (typeof quotaNames)[number];
export type Quotas = Record<QuotaName, number>;

/** What a quota counts, for people. */
export const quotaTexts: Record<QuotaName, string> = {
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
