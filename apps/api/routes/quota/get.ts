import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { presentQuotas, quota, readQuotas } from '../../resources/quotas.ts';

export const getQuota = route('get', '/api/v1/quota', {
  summary: "Get the team's limits and what it has used of them",
  description: 'Limits of what the team may store, with what it has stored, and of how often it may ask.',
  permission: 'workspace:read',
  response: object({ quota }),

  async handle({ sql, caller, quotas }) {
    return { quota: presentQuotas(await readQuotas(sql, caller.teamId, quotas)) };
  },
});
