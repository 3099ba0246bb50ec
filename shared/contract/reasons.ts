/** What is known of the key and of the billing record as they are now; `none`: the key's meter has no record. */
export type Now = {
  key?: { enabled: boolean; deleted?: boolean; expiresAt?: number } | undefined;
  record?: { availableCredits: string; allowOverages: boolean; spendCap?: string } | 'none' | undefined;
  nowMs: number;
};

/** A reason of a refusal, in the words of docs/verify.md. */
type Explained = {
  means: string;
  /** What an operator would change, so that the next call passes. */
  change: string;
  /** Where they would; a limit that refused names its own place. */
  at?: 'key' | 'billing' | 'records';
  /** Whether the cause is still there, where that can be told from outside. */
  stillSo?(now: Now): boolean | undefined;
};

/** Why a call is refused. */
export const reasons = {
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
    at: 'key',
    stillSo: ({ key }) => key && !key.enabled,
  },
  EXPIRED: {
    means: "The key's expiresAt has passed.",
    change: 'Give the key a later expiresAt, or none, or create another key.',
    at: 'key',
    stillSo: ({ key, nowMs }) => key && (key.expiresAt ?? Infinity) <= nowMs,
  },
  IP_NOT_ALLOWED: {
    means: "The caller's address is not in the key's allow list, or else in its workspace's; or no address was told.",
    change:
      "Add the caller's address to the allow list. Behind a proxy: see that the API passes on the caller's own address.",
    at: 'key',
  },
  SCOPE_MISSING: {
    means: 'The key lacks a scope, or a flag of one, that the API asked for.',
    change: 'Grant the key the scope that the route asks for.',
    at: 'key',
  },
  RATE_LIMIT: {
    means: 'A limit on requests was used up. It passes by itself when the window ends.',
    change: 'Wait, send fewer requests, or raise that limit.',
  },
  LIMIT_REACHED: {
    means: 'A limit on credits in a window was used up. It passes by itself when the window ends.',
    change: 'Wait, or raise that limit. More credits do not help.',
  },
  CREDITS_USED_UP: {
    means: 'The cost did not fit into the credits that were left, and the billing record allows no overages.',
    change:
      'Refill or grant credits, or allow overages. Open holds keep credits back until they are captured or released.',
    at: 'billing',
    // With some credits left it depends on what the next call costs.
    stillSo: ({ record }) =>
      record && record !== 'none' && !record.allowOverages && /^(0$|-)/.test(record.availableCredits)
        ? true
        : undefined,
  },
  SPEND_CAP_REACHED: {
    means: 'The cost did not fit below the spend cap of the billing record.',
    change: 'Raise the spend cap or clear it. More credits do not help.',
    at: 'billing',
    stillSo: ({ record }) => (record && record !== 'none' && record.spendCap === undefined ? false : undefined),
  },
  NO_BILLING_RECORD: {
    means: "The call has a cost, and there is no billing record for the key's meter, or the key has no meter.",
    change:
      "Create the billing record of the key's meter. A key's meter can't be changed: a key without one needs a new key.",
    at: 'records',
    stillSo: ({ record }) => record && record === 'none',
  },
} satisfies Record<string, Explained>;

/** The code of a refusal. */
export type Reason = keyof typeof reasons;

/** What is known of a reason. */
export function explained(reason: Reason): Explained {
  return reasons[reason];
}
