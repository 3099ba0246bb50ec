import { Type } from 'typebox';
import { readProof } from '../../../../shared/books/reconciling/unproved-records.ts';
import {
  id,
  named,
  object,
  signedCredits,
  timestamp,
  count,
  plainText,
} from '../../../../shared/contract/schema-kinds.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { route } from '../../http/route.ts';

const MOST_DIFFERENT = 100;

const different = named(
  'DifferentRecord',
  object({
    billingId: id('billing record'),
    externalMeterId: plainText(128, "the record's external meter", 'acme-prod'),
    status: Type.Enum(['MISSING', 'TOO_MUCH'], {
      description: 'whether the books contain less than was used, or more',
    }),
    difference: signedCredits('used credits missing in the books, or else in the daily usage; negative: too much'),
    heldDifference: signedCredits('reserved credits missing in the books; negative: too much'),
    since: timestamp('since when it differs so'),
  }),
);

export const getWorkspaceProof = route('get', '/api/v1/workspace/{id}/proof', {
  summary: "Tell when a workspace's books were proved, and which records differ",
  description:
    'Every hour all billing records are compared with the books; this is what was found last. `GET /api/v1/customer-billing/{bid}/reconciliation` compares one record now, and says where it differs.',
  permission: 'billing:read',
  response: object({
    proof: named(
      'WorkspaceProof',
      object({
        provedAt: Type.Optional(
          timestamp('when the last comparison of all records began; absent before the first one'),
        ),
        differentRecords: count('records that differ', 0),
        undecidedRecords: count('records whose events were still on their way to the books', 0),
        different: Type.Array(different, {
          maxItems: MOST_DIFFERENT,
          description: `the first ${MOST_DIFFERENT} records that differ`,
        }),
      }),
    ),
  }),

  async handle({ sql, params, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const { atMs, different: found, ...counts } = await readProof(sql, params.id, MOST_DIFFERENT);
    return {
      proof: {
        ...(atMs !== undefined && { provedAt: new Date(atMs).toISOString() }),
        ...counts,
        different: found.map(({ id: billingId, differenceMicros, heldDifferenceMicros, since, ...record }) => ({
          billingId,
          ...record,
          difference: formatCredits(differenceMicros),
          heldDifference: formatCredits(heldDifferenceMicros),
          since: since.toISOString(),
        })),
      },
    };
  },
});
