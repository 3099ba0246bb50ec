/** Some records of a workspace. */
export type Records = { workspaceId: string; ids: string[] };

/** What a movement adds to. */
export type Balances = { totalMicros: number; usedMicros: number; expiredMicros: number };
export type BalanceName = 'total' | 'used' | 'expired';

/** The kinds of movements, in the order in which a day tells them. */
export const movementKinds = ['granted', 'expired', 'voided', 'usage', 'adjustment', 'late', 'loss'] as const;
export type MovementKind = (typeof movementKinds)[number];

/** A line of a statement: what it adds to one of the balances. A loss adds nothing. */
export type Movement = {
  day: string;
  kind: MovementKind;
  /** Usage name, or name of a grant. */
  name: string;
  balance: BalanceName;
  micros: number;
  /** Verifications and captures, of usage; lost ones, of a loss; how many are told as one, of what is merged. */
  events?: number;
  grantId?: string;
  /** The event of an adjustment, who made it, and why. */
  eventId?: string;
  tokenId?: string;
  reason?: string;
  /** The closed month that something late belongs to. */
  month?: string;
  /** What a loss would have cost, where that is known. */
  lostMicros?: number;
};

export const nothing: Balances = { totalMicros: 0, usedMicros: 0, expiredMicros: 0 };

// A statement is one answer, and a closed one a row of a table.
export const MOST_OF_A_KIND = 2_000;

/** The name of what stands for several names. */
export const MERGED = '(all)';

/** Balances after movements. */
export function after(opening: Balances, movements: Movement[]): Balances {
  const sum = { ...opening };
  for (const { balance, micros } of movements) sum[`${balance}Micros`] += micros;
  return sum;
}

/** What is told of each record, by record, in its order. */
export function byRecord<Told>(all: Iterable<readonly [billingId: string, told: Told]>): Map<string, Told[]> {
  const found = new Map<string, Told[]>();
  for (const [billingId, told] of all) {
    const known = found.get(billingId);
    if (known) known.push(told);
    else found.set(billingId, [told]);
  }
  return found;
}

/**
 * Movements in the order of day, kind and name. Where a kind has very many, those of a day become one: the sums stay what they are.
 * What is read from stores comes so already where it is very many.
 */
export function inOrder(movements: Movement[]): Movement[] {
  const byKind = Map.groupBy(movements, ({ kind }) => kind);
  const kept = [...byKind.values()].flatMap((ofKind) => (ofKind.length > MOST_OF_A_KIND ? merged(ofKind) : ofKind));
  const rank = ({ kind }: Movement) => movementKinds.indexOf(kind);
  return kept.toSorted(
    (a, b) => compare(a.day, b.day) || rank(a) - rank(b) || compare(a.name, b.name) || compare(idOf(a), idOf(b)),
  );
}

/** By usage name what movements of a kind, or of several, add to what is used. */
export type ByName = Record<string, { micros: number; events: number }>;

/** The usage of movements by name, adjustments included; of very many names one sum. */
export function usageByName(movements: Movement[]): ByName {
  const usage = movements.filter(({ kind }) => kind === 'usage' || kind === 'adjustment');
  return sumByName(
    usage.map(({ kind, name, micros, events = 0 }) => ({ name, micros, events: kind === 'usage' ? events : 0 })),
  );
}

/** Sums by name; of very many names one. */
export function sumByName(rows: { name: string; micros: number; events: number }[]): ByName {
  const names = new Set(rows.map(({ name }) => name));
  const isMany = names.size > MOST_OF_A_KIND || names.has(MERGED);
  const sums = new Map<string, { micros: number; events: number }>();
  for (const { name, micros, events } of rows) {
    const known = sums.get(isMany ? MERGED : name) ?? { micros: 0, events: 0 };
    sums.set(isMany ? MERGED : name, { micros: known.micros + micros, events: known.events + events });
  }
  return Object.fromEntries([...sums].toSorted(([a], [b]) => compare(a, b)));
}

/** What sums have more of than others, by name; those of one name for all are compared with the sum of all. */
export function lessByName(more: ByName, less: ByName): { name: string; micros: number; events: number }[] {
  const isMerged = MERGED in more || MERGED in less;
  const [a, b] = isMerged ? [allOf(more), allOf(less)] : [more, less];
  const zero = { micros: 0, events: 0 };
  // A name may be that of something that every object has, such as "constructor".
  const sumIn = (sums: ByName, name: string) => (Object.hasOwn(sums, name) ? sums[name]! : zero);
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].toSorted(compare).flatMap((name) => {
    const [one, other] = [sumIn(a, name), sumIn(b, name)];
    const difference = { name, micros: one.micros - other.micros, events: one.events - other.events };
    return difference.micros === 0 && difference.events === 0 ? [] : [difference];
  });
}

function allOf(sums: ByName): ByName {
  const all = Object.values(sums);
  const sum = (of: 'micros' | 'events') => all.reduce((total, one) => total + one[of], 0);
  return { [MERGED]: { micros: sum('micros'), events: sum('events') } };
}

/** Movements of a kind with those of a day as one. */
export function merged(movements: Movement[]): Movement[] {
  const groups = Map.groupBy(movements, ({ day, balance, month }) => `${day} ${balance} ${month ?? ''}`);
  return [...groups.values()].map((group) => {
    const { day, kind, balance, month } = group[0]!;
    const micros = group.reduce((sum, one) => sum + one.micros, 0);
    const events = group.reduce((sum, one) => sum + (one.events ?? 1), 0);
    return { day, kind, name: MERGED, balance, micros, events, ...(month !== undefined && { month }) };
  });
}

function idOf({ grantId, eventId, month }: Movement): string {
  return `${month ?? ''} ${grantId ?? ''}${eventId ?? ''}`;
}

/** By code units: the order of a closed month follows no locale. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
