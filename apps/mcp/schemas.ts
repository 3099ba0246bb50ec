import { Type, type Static } from 'typebox';
import type { Contract } from '../../clients/node/index.ts';
import { shown, withUntrusted } from './tool.ts';

// What more than one tool takes or gives.

export const ids = {
  workspace: Type.String({ description: 'id of a workspace, ws_…', maxLength: 128 }),
  key: Type.String({ description: 'id of an API key, key_…; not the key itself', maxLength: 128 }),
  record: Type.String({ description: 'id of a billing record, bill_…', maxLength: 128 }),
};
export const meter = Type.String({ description: "the operator's own id of a meter, exactly", maxLength: 256 });
export const customer = Type.String({ description: "the operator's own id of a customer, exactly", maxLength: 256 });
export const cursor = Type.Optional(
  Type.String({ description: '`nextCursor` of the answer before, with the same input otherwise', maxLength: 8_192 }),
);
export const nextCursor = Type.Optional(Type.String({ description: 'more is there: ask again with it as `cursor`' }));
export const timezone = Type.Optional(
  Type.String({ description: 'IANA name of the time zone of periods; default UTC', maxLength: 64 }),
);
export const amount = Type.String({ description: 'credits, exact decimal text' });
export const instant = Type.String({ description: 'time in UTC' });

type BillingRecord = Contract['get /api/v1/customer-billing/{bid}']['output']['billing'];
type Limits = NonNullable<BillingRecord['limits']>;

export const limits = Type.Array(
  withUntrusted(
    {
      unit: Type.String({ description: 'what it counts: requests, or credits' }),
      limit: Type.Union([Type.Number(), Type.String()]),
      per: Type.String({ description: 'its window' }),
      timezone: Type.Optional(Type.String()),
      shadow: Type.Optional(Type.Boolean({ description: 'true: it only watches, and refuses nothing' })),
    },
    {
      name: Type.String(),
      usageName: Type.Optional(Type.String({ description: 'it counts only calls of this name' })),
    },
  ),
);

export function presentLimits(given: Limits): Static<typeof limits> {
  return given.map(({ name, usageName, unit, limit, per, timezone, shadow }) => ({
    unit,
    limit,
    per,
    ...(timezone !== undefined && { timezone }),
    ...(shadow !== undefined && { shadow }),
    untrusted: { name: shown(name), ...(usageName !== undefined && { usageName: shown(usageName) }) },
  }));
}

export const record = withUntrusted(
  {
    billingId: ids.record,
    workspaceId: ids.workspace,
    totalCredits: amount,
    usedCredits: amount,
    heldCredits: Type.String({ description: 'credits that open holds reserve' }),
    expiredCredits: amount,
    availableCredits: Type.String({ description: 'total less used, held and expired' }),
    allowOverages: Type.Boolean({ description: 'whether use may go on beyond totalCredits' }),
    spendCap: Type.Optional(Type.String({ description: 'the most that may be used, in credits' })),
    limits: Type.Optional(limits),
  },
  { externalMeterId: Type.String() },
);

export function presentRecord(given: BillingRecord): Static<typeof record> {
  const { id, workspaceId, externalMeterId, allowOverages, spendCap, limits } = given;
  const { totalCredits, usedCredits, heldCredits, expiredCredits, availableCredits } = given;
  return {
    billingId: id,
    workspaceId,
    totalCredits,
    usedCredits,
    heldCredits,
    expiredCredits,
    availableCredits,
    allowOverages,
    ...(spendCap !== undefined && { spendCap }),
    ...(limits !== undefined && { limits: presentLimits(limits) }),
    untrusted: { externalMeterId: shown(externalMeterId) },
  };
}

type ApiKey = Contract['get /api/v1/workspace/{id}/api-key/{akid}']['output']['apiKey'];

export const key = withUntrusted(
  {
    apiKeyId: ids.key,
    workspaceId: ids.workspace,
    maskedKey: Type.String({ description: 'the key without its middle part' }),
    enabled: Type.Boolean(),
    deleted: Type.Boolean({ description: 'deleted for good' }),
    expiresAt: Type.Optional(instant),
    lastUsedAt: Type.Optional(instant),
    billingId: Type.Optional(ids.record),
  },
  {
    name: Type.String(),
    customerId: Type.Optional(Type.String()),
    externalMeterId: Type.Optional(Type.String()),
  },
);

export function presentKey(workspaceId: string, given: ApiKey): Static<typeof key> {
  const { id, maskedKey, enabled, deleted, expiresAt, lastUsedAt, billingId } = given;
  const { name, customerId, externalMeterId } = given;
  return {
    apiKeyId: id,
    workspaceId,
    maskedKey,
    enabled,
    deleted,
    ...(expiresAt !== undefined && { expiresAt: timeOf(expiresAt) }),
    ...(lastUsedAt !== undefined && { lastUsedAt }),
    ...(billingId !== undefined && { billingId }),
    untrusted: {
      name: shown(name),
      ...(customerId !== undefined && { customerId: shown(customerId) }),
      ...(externalMeterId !== undefined && { externalMeterId: shown(externalMeterId) }),
    },
  };
}

/** Unix milliseconds as text. */
export function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
