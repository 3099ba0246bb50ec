import { formatCredits } from './credits.ts';
import { DAY_MS } from './periods.ts';

export const HOUR_MS = 3_600_000;

/** A kind of destination: where it is, what it takes, and what it remembers. */
type KindData = {
  /** Where it is, unless a destination says another place. */
  url?: string;
  /** Most events of a request. */
  batchSize: number;
  /** It takes one whole number above 0: what is less is carried on. */
  takesWhole?: true;
  /** It can't be called without a secret of its own. */
  needsSecret?: true;
  /** How far back it takes events. */
  pastMs?: number;
  /** How long it knows an identity again; absent: for ever, or its receiver sees to it. */
  remembersMs?: number;
  /** Most events in a second. */
  perSecond: number;
};

/** What the other sides' documents say of them. */
export const meterKinds = {
  stripe: {
    url: 'https://api.stripe.com/v1/billing/meter_events',
    batchSize: 1,
    takesWhole: true,
    needsSecret: true,
    pastMs: 35 * DAY_MS,
    remembersMs: DAY_MS,
    // Of 1,000, since others may call with the same key.
    perSecond: 900,
  },
  openmeter: {
    url: 'https://openmeter.cloud/api/v1/events',
    batchSize: 100,
    remembersMs: 32 * DAY_MS,
    perSecond: 10_000,
  },
  cloudevents: { batchSize: 100, perSecond: 10_000 },
  lago: {
    url: 'https://api.getlago.com/api/v1/events/batch',
    batchSize: 100,
    needsSecret: true,
    perSecond: 10_000,
  },
  http: { batchSize: 100, perSecond: 10_000 },
} as const satisfies Record<string, KindData>;

export type MeterKind = keyof typeof meterKinds;

/** What a kind is like. */
export function meterKind(kind: MeterKind): KindData {
  return meterKinds[kind];
}

/** A quantity in micro-units as a destination gets it: a decimal, or, where it takes whole numbers, how many of its units that are. */
export function meterValue(kind: MeterKind, quantity: number, unitMicros: number): string {
  return meterKind(kind).takesWhole ? String(quantity / unitMicros) : formatCredits(quantity);
}
