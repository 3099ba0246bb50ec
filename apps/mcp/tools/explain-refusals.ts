import { Type } from 'typebox';
import { KeytallyError, type Contract } from '../../../clients/node/index.ts';
import { explain, reasons, type Now } from '../reasons.ts';
import { ids, key, keyFrom, limitOf, limits, meter, record, recordFrom, text } from '../schemas.ts';
import { tally, tool, withUntrusted, type Options, type Reader } from '../tool.ts';

const MOST = 100;
const BY_DEFAULT = 20;

const place = Type.String({ description: 'whose limit: key, workspace or billing' });
const limitedBy = withUntrusted(
  { on: place, limit: Type.Union([Type.Number(), Type.String()], { description: 'the limit as it was set' }) },
  { name: Type.String() },
);
const decision = withUntrusted(
  { time: Type.String(), apiKeyId: ids.key, status: Type.String(), reason: text, limitedBy: Type.Optional(limitedBy) },
  { route: Type.Optional(Type.String({ description: 'what the caller asked for' })) },
);
const explained = Type.Object({
  reason: Type.Enum([...reasons]),
  count: Type.Integer({ description: 'how many of the decisions that were read' }),
  lastAt: Type.String(),
  means: Type.String(),
  change: Type.String({ description: 'what an operator would change' }),
  stillSo: Type.Optional(Type.Boolean({ description: 'whether the cause is still there; absent: not known' })),
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
    limit: limitOf('decisions to list', MOST, BY_DEFAULT),
  }),
  output: Type.Object({
    read: Type.Integer({ description: 'how many decisions were read' }),
    refused: Type.Integer({ description: 'how many of them were refusals' }),
    reasons: Type.Array(explained),
    decisions: Type.Array(decision, { description: 'newest first' }),
    key: Type.Optional(key),
    keyLimits: Type.Optional(limits),
    rateLimitPerSecond: Type.Optional(
      Type.Integer({ description: "the key's own; absent: its workspace's, if it has one" }),
    ),
    allowedAddresses: Type.Optional(
      Type.Integer({
        description: "how many entries the key's own allow list has; absent: its workspace's list counts",
      }),
    ),
    record: Type.Optional(record),
  }),

  async run({ withValid = false, limit = BY_DEFAULT, ...which }, reader, options) {
    const { workspaceId, apiKeyId, externalMeterId } = which;
    if ((apiKeyId === undefined) === (externalMeterId === undefined))
      throw new Error('Give workspaceId with apiKeyId, or with externalMeterId.');
    const [{ data: decisions }, now] = await Promise.all([
      reader.verifications.recent(apiKeyId === undefined ? { workspaceId, externalMeterId } : { apiKeyId }, options),
      readNow(which, reader, options),
    ]);
    const refusals = decisions.filter(({ status }) => status !== 'VALID');
    const { key: keyNow, record: recordNow } = now;
    return {
      text: `${refusals.length} of the last ${decisions.length} decisions of 24 hours were refusals: ${tally(refusals, ({ reason, status }) => reason ?? status)}.`,
      data: {
        read: decisions.length,
        refused: refusals.length,
        reasons: explainedReasons(refusals, now),
        decisions: (withValid ? decisions : refusals).slice(0, limit),
        key: keyNow && keyFrom(workspaceId, keyNow),
        keyLimits: keyNow?.limits,
        rateLimitPerSecond: keyNow?.rateLimitPerSecond,
        allowedAddresses: keyNow?.allowedIPs?.length,
        record: recordNow && recordNow !== 'none' ? recordFrom(recordNow) : undefined,
      },
    };
  },
});

type Which = { workspaceId: string; apiKeyId?: string; externalMeterId?: string };

async function readNow({ workspaceId, apiKeyId, externalMeterId }: Which, reader: Reader, options: Options) {
  const now: Now = { nowMs: Date.now() };
  if (apiKeyId === undefined) {
    const { billing } = await reader.billing
      .get({ workspaceId, externalMeterId: externalMeterId! }, options)
      .catch((error: unknown) => {
        if (error instanceof KeytallyError && error.status === 404) return { billing: 'none' as const };
        throw error;
      });
    return { ...now, record: billing };
  }
  const { apiKey } = await reader.apiKeys.get({ id: workspaceId, akid: apiKeyId }, options);
  if (apiKey.billingId === undefined) return { ...now, key: apiKey, record: 'none' as const };
  const { billing } = await reader.billing.getById({ bid: apiKey.billingId }, options);
  return { ...now, key: apiKey, record: billing };
}

type Decision = Contract['get /api/v1/verifications/recent']['output']['data'][number];

/** Each reason once, that of the newest refusal first. */
function explainedReasons(refusals: readonly Decision[], now: Now) {
  const byReason = Map.groupBy(refusals, ({ reason }) => reason);
  return [...byReason].flatMap(([reason, all]) =>
    reason === undefined ? [] : [{ reason, count: all.length, lastAt: all[0]!.time, ...explain(reason, now) }],
  );
}
