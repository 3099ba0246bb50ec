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

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: wait }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('grant' as const),
      micros: some,
      priority: fc.constantFrom(10, 50, 50),
      beginsIn: ms,
      /** 0: it has no end. */
      lasts: fc.constantFrom(0, 5, 5, 10, 15),
      rollsFor: fc.constantFrom(0, 0, 0, 5, 10),
      most: micros,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('void' as const), grant: place }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('verify' as const), micros }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('hold' as const),
      micros: some,
      expiresIn: later,
      onExpiry: fc.constantFrom('release' as const, 'charge' as const),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('capture' as const), hold: place, micros }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('release' as const), hold: place }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('cancel' as const), call: place }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('extend' as const), hold: place, expiresIn: later }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('adjust' as const), micros: fc.bigInt({ min: -12n, max: 6n }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('settings' as const),
      allowOverages: fc.boolean(),
      spendCap: fc.option(fc.bigInt({ min: 0n, max: 40n }), { nil: undefined }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('alerts' as const),
      alerts: fc.uniqueArray(alert, { selector: ({ name }) => name, maxLength: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('rebuild' as const) }) },
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
