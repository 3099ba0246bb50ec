import { Type } from 'typebox';
import { KeytallyError } from '../../../clients/node/index.ts';
import { explained } from '../../../shared/contract/reasons.ts';
import { ids, key, keyFrom, meter, object, record, recordFrom, recordOf, type Which } from '../schemas.ts';
import { tally, tool, type Reader } from '../tool.ts';

const MOST = 50;

const decision = object(['time', 'apiKeyId', 'status', 'reason'], ['route'], {
  limitedBy: Type.Optional(object(['on', 'limit'], ['name'])),
});

export default tool({
  name: 'explain_refusals',
  title: 'Why was this key refused?',
  description: `Reads the last decisions of a key, or of all keys of a meter (at most 100, of the last 24 hours), and explains each reason of a refusal: what it means, how often it occurred, what would change it, and whether it is still so; beside the key and its billing record as they are now. Give workspaceId with apiKeyId or with externalMeterId; find gives them. For older refusals, and exact counts, take refusals_over_time.`,
  input: Type.Object({
    workspaceId: ids.workspace,
    apiKeyId: Type.Optional(ids.key),
    externalMeterId: Type.Optional(meter),
    withValid: Type.Optional(Type.Boolean({ description: 'list VALID decisions too; default false' })),
  }),
  output: Type.Object({
    read: Type.Integer({ description: 'how many decisions were read' }),
    refused: Type.Integer({ description: 'how many of them were refusals' }),
    reasons: Type.Array(object(['reason', 'count', 'lastAt', 'means', 'change', 'stillSo'])),
    decisions: Type.Array(decision, { description: `the newest ${MOST}` }),
    key: Type.Optional(key),
    record: Type.Optional(record),
  }),

  async run({ withValid = false, ...which }, reader) {
    const { workspaceId, apiKeyId, externalMeterId } = which;
    if ((apiKeyId === undefined) === (externalMeterId === undefined))
      throw new Error('Give workspaceId with apiKeyId, or with externalMeterId.');
    const [{ data: decisions }, now] = await Promise.all([
      reader.verifications.recent(apiKeyId === undefined ? { workspaceId, externalMeterId } : { apiKeyId }),
      readNow(which, reader),
    ]);
    const refusals = decisions.filter(({ status }) => status !== 'VALID');
    const codeOf = ({ reason, status }: (typeof refusals)[number]) => reason ?? status;
    return {
      text: `${refusals.length} of the last ${decisions.length} decisions of 24 hours were refusals: ${tally(refusals, codeOf)}.`,
      data: {
        read: decisions.length,
        refused: refusals.length,
        // Each reason once, that of the newest refusal first.
        reasons: [...Map.groupBy(refusals, ({ reason }) => reason)].flatMap(([reason, all]) => {
          const why = reason && explained(reason);
          return why ? { reason, count: all.length, lastAt: all[0]!.time, ...why, stillSo: why.stillSo?.(now) } : [];
        }),
        decisions: (withValid ? decisions : refusals).slice(0, MOST),
        key: now.key && keyFrom(workspaceId, now.key),
        record: now.record === 'none' ? undefined : recordFrom(now.record),
      },
    };
  },
});

async function readNow(which: Which & { workspaceId: string; apiKeyId?: string }, reader: Reader) {
  const { workspaceId: id, apiKeyId: akid } = which;
  const now = {
    nowMs: Date.now(),
    key: akid === undefined ? undefined : (await reader.apiKeys.get({ id, akid })).apiKey,
  };
  if (now.key && now.key.billingId === undefined) return { ...now, record: 'none' as const };
  const record = await recordOf(now.key ? { billingId: now.key.billingId! } : which, reader).catch((error: unknown) => {
    if (error instanceof KeytallyError && error.status === 404) return 'none' as const;
    throw error;
  });
  return { ...now, record };
}
