import * as fc from 'fast-check';
import type { Alert, NewGrant } from './model.ts';

/** What a random run does to a record. Times are relative to its clock, grants and holds are named by their place. */
export type Command =
  | { do: 'wait'; ms: number }
  | { do: 'grant'; micros: bigint; priority: number; beginsIn: number; lasts: number; rollsFor: number; most: bigint }
  | { do: 'void'; grant: number }
  | { do: 'verify'; micros: bigint }
  | { do: 'hold'; micros: bigint; expiresIn: number; onExpiry: 'release' | 'charge' }
  | { do: 'capture'; hold: number; micros: bigint }
  | { do: 'release'; hold: number }
  | { do: 'extend'; hold: number; expiresIn: number }
  | { do: 'cancel'; call: number }
  | { do: 'adjust'; micros: bigint }
  | { do: 'settings'; allowOverages: boolean; spendCap: bigint | undefined }
  | { do: 'alerts'; alerts: Alert[] }
  /** Redis loses the record. */
  | { do: 'rebuild' };

// Few instants and small amounts, so that much happens in one ms and everything is used up: with wide ranges 12,000
// sequences find nothing.
const micros = fc.bigInt({ min: 0n, max: 12n });
const some = fc.bigInt({ min: 1n, max: 12n });
const ms = fc.constantFrom(0, 0, 5, 5, 5, 10, 10, 15, 20);
const wait = fc.oneof(
  { weight: 20, arbitrary: ms },
  { weight: 1, arbitrary: fc.constantFrom(86_400_000 - 5, 86_400_000, 86_400_000 + 5) },
);
const later = fc.constantFrom(5, 5, 10, 10, 15, 20);
const place = fc.nat(12);

const alert: fc.Arbitrary<Alert> = fc.record({
  name: fc.constantFrom('low', 'half', 'gone'),
  when: fc.oneof(
    fc.record({ usedPercent: fc.constantFrom(1n, 33n, 50n, 80n, 100n, 150n) }),
    fc.record({ available: fc.bigInt({ min: 0n, max: 8n }) }),
  ),
});

const onExpiry = fc.constantFrom('release' as const, 'charge' as const);
const bounds = {
  allowOverages: fc.boolean(),
  spendCap: fc.option(fc.bigInt({ min: 0n, max: 40n }), { nil: undefined }),
};

const command: fc.Arbitrary<Command> = fc.oneof(
  doing(4, 'wait', { ms: wait }),
  doing(4, 'grant', {
    micros: some,
    priority: fc.constantFrom(10, 50, 50),
    beginsIn: ms,
    /** 0: it has no end. */
    lasts: fc.constantFrom(0, 5, 5, 10, 15),
    rollsFor: fc.constantFrom(0, 0, 0, 5, 10),
    most: micros,
  }),
  doing(1, 'void', { grant: place }),
  doing(6, 'verify', { micros }),
  doing(5, 'hold', { micros: some, expiresIn: later, onExpiry }),
  doing(4, 'capture', { hold: place, micros }),
  doing(2, 'release', { hold: place }),
  doing(3, 'cancel', { call: place }),
  doing(1, 'extend', { hold: place, expiresIn: later }),
  doing(2, 'adjust', { micros: fc.bigInt({ min: -12n, max: 6n }) }),
  doing(1, 'settings', bounds),
  doing(1, 'alerts', { alerts: fc.uniqueArray(alert, { selector: ({ name }) => name, maxLength: 3 }) }),
  doing(1, 'rebuild', {}),
);

/** Sequences of commands. */
export const sequences = (length: number) => fc.array(command, { minLength: 1, maxLength: length, size: 'max' });

/** The grant that a command asks for at a time. */
export function grantOf(command: Extract<Command, { do: 'grant' }>, now: number): NewGrant {
  const { micros, priority, beginsIn, lasts, rollsFor, most } = command;
  const beginsAt = now + beginsIn;
  if (lasts === 0) return { micros, priority, beginsAt };
  const endsAt = beginsAt + lasts;
  return { micros, priority, beginsAt, endsAt, ...(rollsFor > 0 && { rollover: { endsAt: endsAt + rollsFor, most } }) };
}

/** A command with these fields, among others by its weight. */
export function doing<What extends string, Fields>(
  weight: number,
  what: What,
  fields: { [Name in keyof Fields]: fc.Arbitrary<Fields[Name]> },
) {
  const arbitrary = fc.record({ do: fc.constant(what), ...fields }) as unknown as fc.Arbitrary<{ do: What } & Fields>;
  return { weight, arbitrary };
}
