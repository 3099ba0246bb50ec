import { Type } from 'typebox';
import type { Contract } from '../../../clients/node/index.ts';
import { reasons, type Reason } from '../../../shared/contract/reasons.ts';
import { choice, day, ids, object, timezone } from '../schemas.ts';
import { tally, tool } from '../tool.ts';

const MOST = 100;
const groups = ['limit', 'key'] as const;

const row = object(['start', 'status', 'reason', 'apiKeyId', 'count'], ['limit', 'apiKeyName']);

export default tool({
  name: 'refusals_over_time',
  title: 'Refusals by reason over time',
  description: `Counts refused calls by minute, hour or day and by reason; on demand also by limit and key, beside how many calls were VALID. The ${MOST} largest rows, the largest first. wouldRefuse has calls that passed, and that limits which only watch (shadow) would have refused. Without workspaceId: calls with keys that do not exist, for tokens of the whole team. Refusals are kept for 93 days.`,
  input: Type.Object({
    workspaceId: Type.Optional(ids.workspace),
    from: day('first day, YYYY-MM-DD, or an instant; default: the day of `to`'),
    to: day('last day, included, or an instant, excluded; default: today'),
    interval: choice(['minute', 'hour', 'day'], 'minutes of at most 2 days, hours of 31, days of 93; default day'),
    timezone,
    groupBy: Type.Optional(
      Type.Array(Type.Enum([...groups]), {
        maxItems: groups.length,
        description: 'beside the reason; default: nothing',
      }),
    ),
    reason: choice(Object.keys(reasons) as Reason[], 'only this one; VALID calls are not counted then'),
    apiKeyId: Type.Optional(ids.key),
  }),
  output: Type.Object({
    refused: Type.Integer({ description: 'all refused calls' }),
    valid: Type.Optional(Type.Integer({ description: 'all calls that were VALID' })),
    rows: Type.Array(row),
    wouldRefuse: Type.Array(row),
    leftOut: Type.Integer({ description: 'rows that are not shown, the smallest' }),
  }),

  async run({ groupBy = [], ...asked }, reader) {
    const query = { ...asked, groupBy: ['status', 'reason', ...groupBy].join(',') };
    const { data, wouldRefuse } = await reader.verifications.count(query);
    const refusals = data.filter(({ status }) => status !== 'VALID');
    const refused = sumOf(refusals);
    const valid = asked.reason === undefined ? { valid: sumOf(data) - refused } : undefined;
    const reasonOf = ({ status, reason }: Count) => reason ?? status ?? '';
    const byReason = tally(refusals, reasonOf, ({ count }) => count);
    return {
      text: `${refused} refused calls (${byReason})${valid ? `, ${valid.valid} VALID` : ''}.`,
      data: {
        refused,
        ...valid,
        rows: largest(refusals),
        wouldRefuse: largest(wouldRefuse),
        leftOut: Math.max(0, refusals.length - MOST) + Math.max(0, wouldRefuse.length - MOST),
      },
    };
  },
});

type Count = Contract['get /api/v1/verifications']['output']['data'][number];

function sumOf(rows: readonly Count[]): number {
  return rows.reduce((sum, { count }) => sum + count, 0);
}

function largest(rows: readonly Count[]): Count[] {
  return rows.toSorted((a, b) => b.count - a.count).slice(0, MOST);
}
