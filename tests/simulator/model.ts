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
  allowOverages: boolean;
  grants: Grant[];
  keys: Key[];
  /** Redis lost debits of it: it may be used for more than was bought. */
  hasLost: boolean;
};

/** Credits between two moments (Unix ms). */
export type Grant = {
  id: string;
  micros: number;
  beginsAt: number;
  endsAt: number;
  state: 'sure' | 'undecided' | 'none';
  mayBeVoid: boolean;
};

export type Key = {
  id: string;
  text: string;
  meter: Meter;
  /** As the last change that was answered left it; unclear while one is under way, or was never answered. */
  state: 'enabled' | 'disabled' | 'deleted' | 'unclear';
  /** Counts the changes that began. */
  changes: number;
  changing: boolean;
  /** A rotation was never answered: it may have another text. */
  mayBeRotated: boolean;
};

/** Something that is debited once, or not at all. Its amount is no other's. */
export type Debit = {
  what: 'verification' | 'capture' | 'adjustment';
  micros: number;
  meter: Meter;
  /** Sure: it was answered. Undecided: it may have been. */
  state: 'undecided' | 'sure' | 'none';
  /** Redis lost what it had of it before it was in the books. */
  mayBeLost: boolean;
  /** It was asked for again after Redis had forgotten that it was decided. */
  mayBeDouble: boolean;
  answeredMs: number;
};

export type Hold = { id: string; meter: Meter; micros: number; endsAtMs: number; settled: boolean };

// What begins or ends takes effect with the next turn.
const UNSURE_MS = 2_000;

export function makeModel() {
  const meters: Meter[] = [];
  const debits: Debit[] = [];
  const holds: Hold[] = [];
  let amounts = 0;
  return {
    meters,
    debits,
    holds,
    keys: () => meters.flatMap((meter) => meter.keys),
    /** An amount that nothing else has. */
    newAmount: () => (amounts += 1),
    newDebit(what: Debit['what'], meter: Meter, micros: number): Debit {
      const debit: Debit = {
        what,
        micros,
        meter,
        state: 'undecided',
        mayBeLost: false,
        mayBeDouble: false,
        answeredMs: Infinity,
      };
      debits.push(debit);
      return debit;
    },
    /** The most that may be used of a meter, or held. */
    mostTaken: (meter: Meter) =>
      sum(debits.filter((one) => one.meter === meter && one.state !== 'none')) +
      sum(holds.filter((one) => one.meter === meter)),
  };
}

/**
 * Whether an answer may say that the credits of a record are used up, between two moments; what it was asked for is among what may
 * be taken. What was taken of grants that ended leaves more than this counts.
 */
export function maySayUsedUp(model: Model, meter: Meter, fromMs: number, toMs: number): boolean {
  const granted = meter.grants.filter(
    ({ state, mayBeVoid, beginsAt, endsAt }) =>
      state === 'sure' && !mayBeVoid && beginsAt < fromMs - UNSURE_MS && endsAt > toMs + UNSURE_MS,
  );
  return !meter.allowOverages && model.mostTaken(meter) > meter.total.least + sum(granted);
}

/** The most that was ever bought of a record, or granted. */
export function mostGiven({ total, grants }: Meter): number {
  return total.most + sum(grants.filter(({ state }) => state !== 'none'));
}

function sum(list: readonly { micros: number }[]): number {
  return list.reduce((all, { micros }) => all + micros, 0);
}
