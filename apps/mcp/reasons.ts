import type { Contract } from '../../clients/node/index.ts';

type ApiKey = Contract['get /api/v1/workspace/{id}/api-key/{akid}']['output']['apiKey'];
type BillingRecord = Contract['get /api/v1/customer-billing/{bid}']['output']['billing'];
export type Reason = NonNullable<Contract['get /api/v1/verifications/recent']['output']['data'][number]['reason']>;

/** What is known of the key and of the billing record as they are now. */
export type Now = { key?: ApiKey | undefined; record?: BillingRecord | 'none' | undefined; nowMs: number };

type Explanation = {
  means: string;
  /** What an operator would change, so that the next call passes. No tool does it. */
  change: string;
  /** Whether the cause is still there; absent or undefined: that can't be told from outside. */
  stillSo?: (now: Now) => boolean | undefined;
};

/** Each reason in the words of docs/verify.md, with what would change it. */
const explanations: Record<Reason, Explanation> = {
  MALFORMED: {
    means: 'The text that was sent is not a key: it was mistyped, cut off, or is something else.',
    change: 'The caller must send the whole key as it was issued.',
  },
  NOT_FOUND: {
    means: 'No key of the team has this text: it belongs to nobody, to another team, or was replaced by a rotation.',
    change: 'The caller must send the newest secret of the key, or get a new key.',
  },
  NO_KEY: {
    means: 'The call came to a gateway without a key.',
    change: 'The caller must send the key, as Authorization: Bearer or X-API-Key.',
  },
  TWO_KEYS: {
    means: 'The call came to a gateway with two different keys.',
    change: 'The caller must send one key.',
  },
  DELETED: {
    means: 'The key was deleted; only an import of its secret that asks for it brings it back.',
    change: 'Create another key for the customer.',
    stillSo: ({ key }) => key?.deleted,
  },
  DISABLED: {
    means: 'The key is disabled: its `enabled` was set to false.',
    change: 'Enable the key, after finding out why it was disabled: it may have leaked. The audit log says who did it.',
    stillSo: ({ key }) => key && !key.enabled,
  },
  EXPIRED: {
    means: "The key's expiresAt has passed.",
    change: 'Give the key a later expiresAt, or none, or create another key.',
    stillSo: ({ key, nowMs }) => key && (key.expiresAt ?? Infinity) <= nowMs,
  },
  IP_NOT_ALLOWED: {
    means: "The caller's address is not in the key's allow list, or else in its workspace's; or no address was told.",
    change:
      "Add the caller's address to the allow list. Behind a proxy: see that the API passes on the caller's own address.",
  },
  SCOPE_MISSING: {
    means: 'The key lacks a scope, or a flag of one, that the API asked for.',
    change: 'Grant the key the scope that the route asks for.',
  },
  RATE_LIMIT: {
    means: 'A limit on requests was used up; limitedBy says whose. It passes by itself when the window ends.',
    change: 'Wait, send fewer requests, or raise that limit.',
  },
  LIMIT_REACHED: {
    means:
      'A limit on credits in a window was used up; limitedBy says whose. It passes by itself when the window ends.',
    change: 'Wait, or raise that limit. More credits do not help.',
  },
  CREDITS_USED_UP: {
    means: 'The cost did not fit into the credits that were left, and the billing record allows no overages.',
    change:
      'Refill or grant credits, or allow overages. Open holds keep credits back until they are captured or released.',
    // With some credits left it depends on what the next call costs.
    stillSo: ({ record }) =>
      isRecord(record) && !record.allowOverages && isNothing(record.availableCredits) ? true : undefined,
  },
  SPEND_CAP_REACHED: {
    means: 'The cost did not fit below the spend cap of the billing record.',
    change: 'Raise the spend cap or clear it. More credits do not help.',
    stillSo: ({ record }) => (isRecord(record) && record.spendCap === undefined ? false : undefined),
  },
  NO_BILLING_RECORD: {
    means: "The call has a cost, and there is no billing record for the key's meter, or the key has no meter.",
    change:
      "Create the billing record of the key's meter. A key's meter can't be changed: a key without one needs a new key.",
    stillSo: ({ record }) => record && record === 'none',
  },
};

export const reasons = Object.keys(explanations) as Reason[];

/** What a reason means, what would change it, and whether it is still so, where that can be told. */
export function explain(reason: Reason, now: Now): { means: string; change: string; stillSo?: boolean } {
  const { means, change, stillSo } = explanations[reason];
  const is = stillSo?.(now);
  return { means, change, ...(is !== undefined && { stillSo: is }) };
}

function isRecord(record: Now['record']): record is BillingRecord {
  return record !== undefined && record !== 'none';
}

function isNothing(credits: string): boolean {
  return credits === '0' || credits.startsWith('-');
}
