/**
 * What an event tells:
 * - verification: a call was answered VALID.
 * - adjustment: used credits were corrected.
 * - rebuild: Redis took a balance over from the books.
 * - hold, extension: credits were reserved, or the end of a hold was moved.
 * - capture, release: a hold ended, with usage or without.
 * - correction: the usage of a hold that had ended was corrected, or a verification was cancelled.
 * - moment: what it did to classes of credits, or that it crossed an alert (docs/accounts-design.md).
 */
export const eventKinds = [
  ...(['verification', 'adjustment', 'rebuild'] as const),
  ...(['hold', 'capture', 'release', 'extension', 'correction', 'moment'] as const),
] as const;
export type EventKind = (typeof eventKinds)[number];

type Kinds = ReadonlySet<EventKind>;

export const ADJUSTMENTS: Kinds = new Set(['adjustment']);
export const OF_HOLDS: Kinds = new Set(['hold', 'capture', 'release', 'extension', 'correction']);
/** Kinds of lines after that of the hold itself, which alone has its key's record at hand. */
export const ENDING_HOLDS: Kinds = new Set(['capture', 'release', 'extension', 'correction']);
export const OF_KEYS: Kinds = new Set(['verification', ...OF_HOLDS]);
/** Kinds that a key without a meter has, too: what it did, and what was cancelled. */
export const UNMETERED: Kinds = new Set(['verification', 'correction']);
/** Kinds that say nothing without a detail. */
export const NEVER_WITHOUT_DETAIL: Kinds = new Set(['hold', 'extension']);
export const FREE: Kinds = new Set(['hold', 'release', 'extension', 'moment']);
/** Kinds whose cost may be below zero. */
export const GIVING_BACK: Kinds = new Set(['adjustment', 'correction']);
/** Kinds that state a balance and change nothing in it. */
export const STATING: Kinds = new Set(['rebuild']);
