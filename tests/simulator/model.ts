import { parseSignedCredits } from '../../shared/values/credits.ts';
import type { Json } from './programs.ts';
import type { Setting } from './work/settings.ts';

/**
 * What the clients of a simulation know for sure, and what may be: an answer that never came leaves both. Amounts are in
 * micro-credits.
 */
export type Model = ReturnType<typeof makeModel>;

export type Meter = {
  name: string;
  id: string;
  /** What was bought: at least, and at most. */
  total: { least: number; most: number };
  bounds: Setting<Bounds>;
  grants: Grant[];
  keys: Key[];
  /** What Redis lost of it, at most: debits that come late, and holds that are captured all the same, take so much more than was given. */
  lostMicros: number;
  /** It was once used beyond its credits, or may have been. */
  wasUnbounded: boolean;
};

/** How far a record may be used: as far as its credits go, or beyond, and to its cap. */
export type Bounds = { allowOverages: boolean; capMicros: number };

/** Credits between two moments (Unix ms). */
export type Grant = {
  id: string;
  micros: number;
  beginsAt: number;
  endsAt: number;
  state: 'sure' | 'undecided' | 'none';
  mayBeVoid: boolean;
};

export type KeyState = 'enabled' | 'disabled' | 'deleted';
export type Key = {
  id: string;
  text: string;
  /** Those that a rotation ended. */
  endedTexts: string[];
  meter: Meter;
  state: Setting<KeyState>;
  /** A rotation was never answered: it may have another text. */
  mayBeRotated: boolean;
};

/** Something that is debited once, or not at all. Its amount is no other's. */
export type Debit = {
  what: 'verification' | 'adjustment';
  micros: number;
  meter: Meter;
  /** Sure: it was answered. Undecided: it may have been. */
  state: 'undecided' | 'sure' | 'none';
  /** Redis lost what it had of it before it was in the books. */
  mayBeLost: boolean;
  /** Redis has forgotten that it was decided: asked for again, it may be debited again. */
  isForgotten: boolean;
  mayBeDouble: boolean;
  /** When it was asked for first, by the latest that the clock had said. */
  sinceMs: number;
  answeredMs: number;
  /** How many are asked for in this amount. */
  alike: number;
  /** How many of its requests are under way. */
  asking: number;
  /** By the clock, after when it is not debited any more: all who asked for it were answered. */
  noLaterThanMs?: number;
};

export type Hold = {
  id: string;
  meter: Meter;
  micros: number;
  /** When it ends by itself. */
  endsAtMs: number;
  /** Whether it is charged then, and not released. */
  charges: boolean;
  /** It was refused, captured or released: nothing is held of it. */
  isOver: boolean;
  captures: Capture[];
  release: 'none' | 'undecided' | 'sure';
  /** When somebody was last answered about it; not by the clock. */
  changedMs: number;
  /** Redis lost it, or how it was settled. */
  mayBeLost: boolean;
};

/** A capture of a hold: what it debits, and whether the hold had ended before. */
export type Capture = { micros: number; state: 'undecided' | 'sure' | 'none'; isLate: boolean; atMs?: number };

/** A record of which nothing was bought or used yet. */
export function newMeter(id: string, name: string, bounds: Meter['bounds']): Meter {
  const none = { grants: [], keys: [], lostMicros: 0, wasUnbounded: false };
  return { name, id, total: { least: 0, most: 0 }, bounds, ...none };
}

// What begins or ends takes effect when the account is next brought up to date.
const UNSURE_MS = 2_000;

export function makeModel(nowMs: () => number, meters: Meter[]) {
  let latestMs = 0;
  const debits: Debit[] = [];
  const holds: Hold[] = [];
  let amounts = 0;
  const latest = () => (latestMs = Math.max(latestMs, nowMs()));
  return {
    /** How often Redis lost something. */
    losses: 0,
    /** The latest that the clock ever said: what ended by then has ended, though it was set back. */
    latestMs: latest,
    meters,
    debits,
    holds,
    keys: () => meters.flatMap((meter) => meter.keys),
    /** An amount that nothing else has. */
    newAmount: () => (amounts += 1),
    newDebit(what: Debit['what'], meter: Meter, micros: number, alike = 1): Debit {
      const open = { state: 'undecided', mayBeLost: false, isForgotten: false, mayBeDouble: false, asking: 0 } as const;
      const debit: Debit = { ...open, what, micros, meter, alike, sinceMs: latest(), answeredMs: Infinity };
      debits.push(debit);
      return debit;
    },
    newHold(meter: Meter, micros: number, charges: boolean): Hold {
      const open = { id: '', endsAtMs: Infinity, isOver: false, captures: [], release: 'none' } as const;
      const hold: Hold = { ...open, captures: [], meter, micros, charges, changedMs: Infinity, mayBeLost: false };
      holds.push(hold);
      return hold;
    },
    /** The most that may be used of a meter, or held from a moment on. */
    mostTaken: (meter: Meter, fromMs: number) =>
      // Since when something is given back is not known.
      sum(debits.filter((one) => one.meter === meter && one.state !== 'none' && one.micros > 0)) +
      holds.reduce((all, one) => all + (one.meter === meter ? mostOfHold(one, fromMs) : 0), 0),
  };
}

/** The most that is held of a hold from a moment on, or was debited. */
function mostOfHold(hold: Hold, fromMs: number): number {
  const { isOver, charges, endsAtMs, micros } = hold;
  return Math.max(mostCaptured(hold), !isOver && (charges || endsAtMs > fromMs - UNSURE_MS) ? micros : 0);
}

function mostCaptured({ captures }: Hold): number {
  return Math.max(0, ...captures.filter(({ state }) => state !== 'none').map(({ micros }) => micros));
}

/** What the api says of a key. */
export function stateOfKey({ apiKey }: Json): KeyState {
  return apiKey.deleted ? 'deleted' : apiKey.enabled ? 'enabled' : 'disabled';
}

/** Whether captures, charges and corrections of a hold may sum up to this, once it has ended. */
export function maySumTo(hold: Hold, micros: number): boolean {
  const { id, charges, release, mayBeLost } = hold;
  const captures = hold.captures.filter(({ state }) => state !== 'none');
  if (captures.some(({ state }) => state === 'sure') && !mayBeLost)
    return captures.some((one) => one.state === 'sure' && one.micros === micros);
  const isUntouched = id !== '' && release === 'none' && captures.length === 0 && !mayBeLost;
  if (charges && isUntouched) return micros === hold.micros;
  return (
    micros === 0 ||
    captures.some((one) => one.micros === micros) ||
    (charges && micros === hold.micros && (release !== 'sure' || mayBeLost)) ||
    // A late capture corrects what was charged, and that may be lost where its correction is not.
    (charges && mayBeLost && captures.some((one) => one.isLate && micros === one.micros - hold.micros))
  );
}

/** What Redis may lose of a hold: what is held, and what was captured. */
export function mostLost(hold: Hold): number {
  return Math.max(hold.micros, mostCaptured(hold));
}

/** The least that was given of a record when something was asked for: bought, and grants that were answered. */
export type LeastGiven = { micros: number; grants: Grant[] };

export function leastGiven({ total, grants }: Meter): LeastGiven {
  return { micros: total.least, grants: grants.filter(({ state }) => state === 'sure') };
}

/**
 * Whether an answer may say that the credits of a record are used up, between two moments; what it was asked for is among what may
 * be taken. What was taken of grants that ended leaves more than this counts.
 */
export function maySayUsedUp(model: Model, meter: Meter, least: LeastGiven, [fromMs, toMs]: [number, number]): boolean {
  const granted = least.grants.filter(
    ({ mayBeVoid, beginsAt, endsAt }) => !mayBeVoid && beginsAt < fromMs - UNSURE_MS && endsAt > toMs + UNSURE_MS,
  );
  const given = least.micros + sum(granted);
  const mayTake = ({ allowOverages, capMicros }: Bounds) => Math.min(allowOverages ? Infinity : given, capMicros);
  return meter.bounds.may.some((bounds) => model.mostTaken(meter, fromMs) > mayTake(bounds));
}

export type Amounts = { total: number; used: number; available: number; held: number; expired: number };

/** The five amounts of a billing record in an answer. */
export function amountsOf(billing: Record<`${keyof Amounts}Credits`, string>): Amounts {
  const names = ['total', 'used', 'available', 'held', 'expired'] as const;
  return Object.fromEntries(names.map((name) => [name, parseSignedCredits(billing[`${name}Credits`])!])) as Amounts;
}

/**
 * What cannot be true of the amounts of a record that an answer names; `bounds` are those by which it has just debited or held some,
 * where they are known.
 */
export function faultOfAmounts(model: Model, meter: Meter, amounts: Amounts, bounds?: Bounds): string | undefined {
  const { total, used, available, held, expired } = amounts;
  if (total !== used + available + held + expired) return `the amounts of ${meter.name} do not add up`;
  if (total > mostGiven(meter)) return `${meter.name} has more than the ${mostGiven(meter)} that were given`;
  if (!bounds) return undefined;
  if (used + held > bounds.capMicros) return `more was taken of ${meter.name} than its cap of ${bounds.capMicros}`;
  if (bounds.allowOverages) return undefined;
  if (available < 0) return `more was taken of ${meter.name} than was available`;
  if (meter.wasUnbounded) return undefined;
  const most = mostGiven(meter) + meter.lostMicros + beyondCredits(model, meter);
  if (used + held > most) return `${used + held} are taken of ${meter.name}, and at most ${most} were given, or lost`;
  const taken = sum(
    model.debits.filter((one) => one.meter === meter && one.what === 'verification' && one.state === 'sure'),
  );
  return taken > most ? `${taken} were VALID of ${meter.name}, and at most ${most} were given, or lost` : undefined;
}

// An adjustment is booked whatever is left, and so is what a capture takes beyond its hold, or after its end.
function beyondCredits(model: Model, meter: Meter): number {
  const adjusted = model.debits.filter(
    (one) => one.meter === meter && one.what === 'adjustment' && one.state !== 'none',
  );
  const beyond = ({ micros: held }: Hold, { micros, isLate, state }: Capture) =>
    state === 'none' ? 0 : isLate ? micros : Math.max(0, micros - held);
  const held = model.holds.filter((one) => one.meter === meter);
  const captured = held.flatMap((hold) => hold.captures.map((capture) => beyond(hold, capture)));
  return [...adjusted.map(({ micros }) => Math.abs(micros)), ...captured].reduce((all, micros) => all + micros, 0);
}

function mostGiven({ total, grants }: Meter): number {
  return total.most + sum(grants.filter(({ state }) => state !== 'none'));
}

function sum(list: readonly { micros: number }[]): number {
  return list.reduce((all, { micros }) => all + micros, 0);
}
