import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { quota, readQuotas } from '../../resources/quotas.ts';

export const getQuota = route('get', '/api/v1/quota', {
  summary: "Get the team's limits and what it has used of them",
  description: 'Limits of what the team may store, with what it has stored, and of how often it may ask.',
  permission: 'workspace:read',
  response: object({ quota }),

  async handle({ sql, caller, quotas }) {
    const { limits, used } = await readQuotas(sql, caller.teamId, quotas);
    return {
      quota: {
        workspaces: { limit: limits.workspaces, used: used.workspaces },
        keys: { limit: limits.keys, used: used.keys },
        scopes: { limit: limits.scopes, used: used.scopes },
        accessTokens: { limit: limits.access_tokens, used: used.access_tokens },
        billingRecords: { limit: limits.billing_records, used: used.billing_records },
        storedBytes: { limit: limits.stored_bytes, used: used.stored_bytes },
        linkTokens: { limit: limits.link_tokens, used: used.link_tokens },
        keptAnswerBytes: { limit: limits.kept_answer_bytes, used: used.kept_answer_bytes },
        verifyPerSecond: { limit: limits.verify_per_second },
        apiPerSecond: { limit: limits.api_per_second },
      },
    };
  },
});
