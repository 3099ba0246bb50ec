import { Type, type Static } from 'typebox';
import { PREFIX_PATTERN } from '../values/key-text.ts';
import { limits } from './limits.ts';
import { alerts } from './alerts.ts';
import { ApiError } from './errors.ts';
import {
  credits,
  id,
  instant,
  jsonObject,
  MOST_TEXT,
  named,
  nameOf,
  object,
  signedCredits,
  textOf,
  textsByName,
  timestamp,
  plainText,
  whole,
} from './schema-kinds.ts';

// The fields and objects that more than one route has. Each JSON Schema is the source: it validates, it is the type
// (`Static`), and it stands in the OpenAPI document.

export const name = nameOf(128, 'name that people see, not blank and without invisible characters', 'Acme');
export const prefix = Type.String({
  pattern: PREFIX_PATTERN,
  description: 'what keys start with',
  examples: ['acme'],
});
export const rateLimit = Type.Integer({
  minimum: 1,
  maximum: 1_000_000,
  description: 'verifications per second',
  examples: [100],
});
export const allowedIps = Type.Array(Type.String({ maxLength: 64, format: 'ip-or-cidr' }), {
  maxItems: 1000,
  description: 'IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all',
  examples: [['203.0.113.0/24', '2001:db8::1']],
});
export const representation = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9:._/*-]{0,127}$',
  description: 'what the scope stands for, unique in its workspace',
  examples: ['documents'],
});

export const customerId = textOf(256, 'your own id of the customer', 'cus_acme');
export const externalMeterId = textOf(
  256,
  'your own id of the meter; it ties keys to the billing record of the same meter',
  'acme',
);

/** The last millisecond of the year 9999: RFC 3339 cannot express a later instant. */
export const LAST_INSTANT = 253_402_300_799_999;

/** The expiry that a request sets. */
export const expiresAtInput = Type.Integer({
  maximum: LAST_INSTANT,
  description: 'when it expires, in Unix milliseconds; in the future',
  examples: [4_102_444_800_000],
});

/** Throws 400 for an instant in the past. Seconds instead of milliseconds always lie there; the message then says so. */
export function requireFuture(expiresAt: number, nowMs: number): void {
  if (expiresAt > nowMs) return;
  // As milliseconds the value would lie in the early 1970s, which nobody means.
  const inSeconds = expiresAt > 100_000_000 && expiresAt < nowMs / 10;
  const hint = inSeconds ? ' The given value looks like seconds; multiply it by 1000.' : '';
  throw new ApiError('expires_at_past', {
    message: `expiresAt must lie in the future, in Unix milliseconds.${hint}`,
    details: [{ path: '/expiresAt', message: 'must lie in the future, in Unix milliseconds' }],
  });
}

export const metadata = jsonObject('data of your own', { maxBytes: 4096, maxDepth: 5 }, { plan: 'pro' });

const flag = (verb: string) =>
  Type.Boolean({ default: false, description: `may ${verb}`, examples: [verb === 'read'] });
const scopeId = Type.String({ maxLength: 128, examples: ['scope_01kafc6v3nf0qtmhd7d5ryx2s9'] });

/** A scope as a request grants it or asks for it. Missing flags are false; an `id` is accepted and ignored. */
export const scopeEntryInput = named(
  'WantedScope',
  object({
    representation,
    create: Type.Optional(flag('create')),
    read: Type.Optional(flag('read')),
    update: Type.Optional(flag('update')),
    del: Type.Optional(flag('delete')),
    id: Type.Optional(scopeId),
  }),
);
export const MOST_SCOPES_OF_KEY = 100;
export const scopeEntries = Type.Array(scopeEntryInput, { maxItems: MOST_SCOPES_OF_KEY });

/** A scope as a key holds it, in answers. */
export const scopeEntry = named(
  'GrantedScope',
  object({
    representation,
    create: Type.Boolean(),
    read: Type.Boolean({ examples: [true] }),
    update: Type.Boolean(),
    del: Type.Boolean(),
    id: Type.Optional(scopeId),
  }),
);
export const answeredScopes = Type.Array(scopeEntry, { maxItems: MOST_SCOPES_OF_KEY });

/** The flags of a scope entry. */
export type Flags = Partial<Pick<Static<typeof scopeEntry>, 'create' | 'read' | 'update' | 'del'>>;

/** The flags create, read, update and delete as bits 1, 2, 4 and 8, as they are stored and passed to verify.lua. */
export function flagBits(flags: Flags): number {
  return (flags.create ? 1 : 0) | (flags.read ? 2 : 0) | (flags.update ? 4 : 0) | (flags.del ? 8 : 0);
}

/** A key's scope entry from its stored form. */
export function scopeEntryOf(representation: string, bits: number, scopeId: string) {
  return {
    representation,
    create: (bits & 1) > 0,
    read: (bits & 2) > 0,
    update: (bits & 4) > 0,
    del: (bits & 8) > 0,
    id: scopeId,
  };
}

/** What a billing record is called at meter destinations. */
export const externalIds = textsByName(
  { mostNames: 20, mostCharacters: 256 },
  'what the record is called at meter destinations, by their ids, such as a customer of Stripe; null: its usage is not sent there. Where it says nothing, it is called by its externalMeterId',
  { dest_01kafc6v3nf0qtmhd7d5ryx2s9: 'cus_NciAYcXfLnqBoz' },
);

/** A billing record, section 2 of the specification. */
export const billing = named(
  'BillingRecord',
  object({
    id: id('billing record'),
    workspaceId: id('workspace'),
    externalMeterId,
    totalCredits: credits('credits bought, ever'),
    usedCredits: credits('credits used, ever'),
    availableCredits: signedCredits('what is left: total less used, held and expired; below 0 where more was used'),
    heldCredits: credits('credits that holds have reserved'),
    expiredCredits: credits('credits that were left when their grants ended'),
    allowOverages: Type.Boolean({ description: 'whether use may go on beyond totalCredits' }),
    spendCap: Type.Optional(credits('most that may be used')),
    limits: Type.Optional(limits),
    alerts: Type.Optional({
      ...alerts,
      description: "its own alerts; absent: its workspace's, and in the answer of a verification",
    }),
    externalIds: Type.Optional(externalIds),
    planId: Type.Optional(id('plan', ' that it has')),
    planVersion: Type.Optional(whole('the version of the plan that it has', 3)),
    nextPlanId: Type.Optional(id('plan', ' that it is given at nextPlanAt')),
    nextPlanAt: Type.Optional(
      instant('when it is given nextPlanId, or, where there is none, leaves its plan; absent: it keeps its plan'),
    ),
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when its settings last changed'),
  }),
);

const detail = object({
  path: plainText(MOST_TEXT, 'a JSON pointer into the body, or the name of a parameter', '/alerts/0/when/limit'),
  message: plainText(
    MOST_TEXT,
    'what is wrong there, or what would be right',
    'names no limit of the record for a day, a week or a month, so the alert is never told',
  ),
});

/** What an answer says of a request that was done and yet has not the effect that it seems to have. */
export const warnings = Type.Array(named('Warning', detail), {
  maxItems: 8,
  description:
    'alerts that are never told: they name no limit of the record for a day, a week or a month; absent without any',
});

/** The error envelope, section 7 of the specification. */
export const errorSchema = named(
  'Error',
  object({
    error: object({
      code: Type.Integer({
        exclusiveMinimum: 0,
        description: 'HTTP status times 100 plus a running number',
        examples: [40001],
      }),
      message: Type.String({ maxLength: MOST_TEXT, description: 'what is wrong and what would be right' }),
      requestId: Type.String({ maxLength: 128, description: 'the X-Request-Id of the answer' }),
      reason: Type.Optional(plainText(128, 'why an end client was refused, for programs', 'CREDITS_USED_UP')),
      limit: Type.Optional(plainText(128, 'the name of the limit that refused it', 'monthly')),
      details: Type.Optional(Type.Array(detail, { maxItems: 1_000 })),
    }),
  }),
);
