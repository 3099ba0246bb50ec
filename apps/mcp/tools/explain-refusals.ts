import { Type, type Static } from 'typebox';
import { KeytallyError, type Contract } from '../../../clients/node/index.ts';
import { explain, reasons, type Now } from '../reasons.ts';
import { ids, key, limits, meter, presentKey, presentLimits, presentRecord, record } from '../schemas.ts';
import { shown, tally, tool, withUntrusted, type Reader } from '../tool.ts';

const MOST = 100;
const BY_DEFAULT = 20;

const place = Type.String({ description: 'whose limit: key, workspace or billing' });
const limitedBy = withUntrusted(
  { on: place, limit: Type.Union([Type.Number(), Type.String()], { description: 'the limit as it was set' }) },
  { name: Type.String() },
);
const decision = withUntrusted(
  {
    time: Type.String(),
    apiKeyId: ids.key,
    status: Type.String(),
    reason: Type.Optional(Type.String()),
    limitedBy: Type.Optional(limitedBy),
  },
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
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MOST, description: `most decisions to list; default ${BY_DEFAULT}` }),
    ),
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

  async run({ workspaceId, apiKeyId, externalMeterId, withValid = false, limit = BY_DEFAULT }, reader, options) {
    if ((apiKeyId === undefined) === (externalMeterId === undefined))
      throw new Error('Give workspaceId with apiKeyId, or with externalMeterId.');
    const [{ data: decisions }, now] = await Promise.all([
      reader.verifications.recent(apiKeyId === undefined ? { workspaceId, externalMeterId } : { apiKeyId }, options),
      readNow({ workspaceId, apiKeyId, externalMeterId }, reader, options),
    ]);
    const refusals = decisions.filter(({ status }) => status !== 'VALID');
    const { key, record } = now;
    const rate = key?.rateLimitPerSecond;
    return {
      text: `${refusals.length} of the last ${decisions.length} decisions of 24 hours were refusals: ${tally(refusals, ({ reason, status }) => reason ?? status)}.`,
      data: {
        read: decisions.length,
        refused: refusals.length,
        reasons: explainedReasons(refusals, now),
        decisions: (withValid ? decisions : refusals).slice(0, limit).map(presentDecision),
        ...(key && { key: presentKey(workspaceId, key) }),
        ...(key?.limits && { keyLimits: presentLimits(key.limits) }),
        ...(rate !== undefined && { rateLimitPerSecond: rate }),
        ...(key?.allowedIPs && { allowedAddresses: key.allowedIPs.length }),
        ...(record !== undefined && record !== 'none' && { record: presentRecord(record) }),
      },
    };
  },
});

type Which = { workspaceId: string; apiKeyId: string | undefined; externalMeterId: string | undefined };

async function readNow(
  { workspaceId, apiKeyId, externalMeterId }: Which,
  reader: Reader,
  options: { signal: AbortSignal },
): Promise<Now> {
  const nowMs = Date.now();
  if (apiKeyId === undefined) {
    const record = await reader.billing.get({ workspaceId, externalMeterId: externalMeterId! }, options).then(
      ({ billing }) => billing,
      (error: unknown) => {
        if (error instanceof KeytallyError && error.status === 404) return 'none' as const;
        throw error;
      },
    );
    return { record, nowMs };
  }
  const { apiKey } = await reader.apiKeys.get({ id: workspaceId, akid: apiKeyId }, options);
  if (apiKey.billingId === undefined) return { key: apiKey, record: 'none', nowMs };
  const { billing } = await reader.billing.getById({ bid: apiKey.billingId }, options);
  return { key: apiKey, record: billing, nowMs };
}

type Decision = Contract['get /api/v1/verifications/recent']['output']['data'][number];

/** Each reason once, that of the newest refusal first. */
function explainedReasons(refusals: readonly Decision[], now: Now): Static<typeof explained>[] {
  const byReason = Map.groupBy(refusals, ({ reason }) => reason);
  return [...byReason].flatMap(([reason, all]) =>
    reason === undefined ? [] : [{ reason, count: all.length, lastAt: all[0]!.time, ...explain(reason, now) }],
  );
}

function presentDecision({ time, apiKeyId, status, reason, route, limitedBy }: Decision): Static<typeof decision> {
  return {
    time,
    apiKeyId,
    status,
    ...(reason !== undefined && { reason }),
    ...(limitedBy && {
      limitedBy: { on: limitedBy.on, limit: limitedBy.limit, untrusted: { name: shown(limitedBy.name) } },
    }),
    untrusted: { ...(route !== undefined && { route: shown(route) }) },
  };
}
