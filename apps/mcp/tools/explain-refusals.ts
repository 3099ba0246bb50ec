import { Type } from 'typebox';
import { KeytallyError, type Contract } from '../../../clients/node/index.ts';
import { reasons, type Reason } from '../../../shared/contract/reasons.ts';
import { ids, key, keyFrom, limitOf, limits, meter, object, record, recordFrom } from '../schemas.ts';
import type { ApiKey, BillingRecord } from '../schemas.ts';
import { tally, tool, type Options, type Reader } from '../tool.ts';

const MOST = 100;
const BY_DEFAULT = 20;

type Decision = Contract['get /api/v1/verifications/recent']['output']['data'][number];
/** What is known of the key and of the billing record as they are now. */
type Now = { key?: ApiKey; record?: BillingRecord | 'none'; nowMs: number };

// Whether the cause of a refusal is still there, where that can be told from outside.
const stillSo: Partial<Record<Reason, (now: Now) => boolean | undefined>> = {
  DELETED: ({ key }) => key?.deleted,
  DISABLED: ({ key }) => key && !key.enabled,
  EXPIRED: ({ key, nowMs }) => key && (key.expiresAt ?? Infinity) <= nowMs,
  // With some credits left it depends on what the next call costs.
  CREDITS_USED_UP: ({ record }) =>
    isRecord(record) && !record.allowOverages && /^(0$|-)/.test(record.availableCredits) ? true : undefined,
  SPEND_CAP_REACHED: ({ record }) => (isRecord(record) && record.spendCap === undefined ? false : undefined),
  NO_BILLING_RECORD: ({ record }) => record && record === 'none',
};

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
    limit: limitOf('decisions to list', MOST, BY_DEFAULT),
  }),
  output: Type.Object({
    read: Type.Integer({ description: 'how many decisions were read' }),
    refused: Type.Integer({ description: 'how many of them were refusals' }),
    reasons: Type.Array(object(['reason', 'count', 'lastAt', 'means', 'change', 'stillSo'])),
    decisions: Type.Array(decision, { description: 'newest first' }),
    key: Type.Optional(key),
    keyLimits: limits,
    rateLimitPerSecond: Type.Optional(
      Type.Integer({ description: "the key's own; absent: its workspace's, if it has one" }),
    ),
    allowedAddresses: Type.Optional(
      Type.Integer({ description: "entries of the key's own allow list; absent: its workspace's list counts" }),
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

/** Each reason once, that of the newest refusal first. */
function explainedReasons(refusals: readonly Decision[], now: Now) {
  const byReason = Map.groupBy(refusals, ({ reason }) => reason);
  return [...byReason].flatMap(([reason, all]) =>
    reason === undefined
      ? []
      : [{ reason, count: all.length, lastAt: all[0]!.time, ...reasons[reason], stillSo: stillSo[reason]?.(now) }],
  );
}

function isRecord(record: Now['record']): record is BillingRecord {
  return record !== undefined && record !== 'none';
}
