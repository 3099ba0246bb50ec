import { Type } from 'typebox';
import type { Contract } from '../../clients/node/index.ts';
import { withUntrusted, type Options, type Reader } from './tool.ts';

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
export const text = Type.Optional(Type.String());

/** The first or last day of what is asked about. */
export function day(description: string) {
  return Type.Optional(Type.String({ maxLength: 40, description }));
}

/** How many rows at most. */
export function limitOf(what: string, most: number, byDefault: number) {
  const description = `most ${what}; default ${byDefault}`;
  return Type.Optional(Type.Integer({ minimum: 1, maximum: most, description }));
}

export const limits = Type.Array(
  withUntrusted(
    {
      unit: Type.String({ description: 'what it counts: requests, or credits' }),
      limit: Type.Union([Type.Number(), Type.String()]),
      per: Type.String({ description: 'its window' }),
      timezone: text,
      shadow: Type.Optional(Type.Boolean({ description: 'true: it only watches, and refuses nothing' })),
    },
    {
      name: Type.String(),
      usageName: Type.Optional(Type.String({ description: 'it counts only calls of this name' })),
    },
  ),
);

export type BillingRecord = Contract['get /api/v1/customer-billing/{bid}']['output']['billing'];

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

/** A billing record with the names of `record`. */
export function recordFrom(given: BillingRecord) {
  return { ...given, billingId: given.id };
}

export type ApiKey = Contract['get /api/v1/workspace/{id}/api-key/{akid}']['output']['apiKey'];

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
  { name: Type.String(), customerId: text, externalMeterId: text },
);

/** A key with the names of `key`. */
export function keyFrom(workspaceId: string, given: ApiKey) {
  return { ...given, apiKeyId: given.id, workspaceId, expiresAt: timeOf(given.expiresAt) };
}

/** Unix milliseconds as text. */
export function timeOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

/** What names a billing record: its id, or its workspace and meter. */
export const which = {
  billingId: Type.Optional(ids.record),
  workspaceId: Type.Optional(ids.workspace),
  externalMeterId: Type.Optional(meter),
};
export type Which = { billingId?: string; workspaceId?: string; externalMeterId?: string };

/** The billing record that is meant. */
export async function recordOf(one: Which, reader: Reader, options: Options): Promise<BillingRecord> {
  const { billingId, workspaceId, externalMeterId } = one;
  if (billingId !== undefined) return (await reader.billing.getById({ bid: billingId }, options)).billing;
  if (workspaceId === undefined || externalMeterId === undefined)
    throw new Error('Give billingId, or workspaceId with externalMeterId.');
  return (await reader.billing.get({ workspaceId, externalMeterId }, options)).billing;
}
