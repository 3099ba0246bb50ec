import * as fc from 'fast-check';

/** What a random run asks of the whole stack. Amounts are whole credits, ends lie a second or two away. */
export type StackCommand =
  | { do: 'wait'; ms: number }
  | { do: 'grant'; credits: number; priority: number; beginsIn: number; lasts: number }
  | { do: 'void'; grant: number }
  | { do: 'schedule'; credits: number; most: number; turnsIn: number }
  | { do: 'refill'; credits: number }
  | { do: 'verify'; credits: number }
  | { do: 'hold'; credits: number; seconds: number; onExpiry: 'release' | 'charge' }
  | { do: 'capture'; hold: number; credits: number }
  | { do: 'release'; hold: number }
  | { do: 'extend'; hold: number; seconds: number }
  | { do: 'adjust'; credits: number }
  | { do: 'settings'; allowOverages: boolean; spendCap: string | null }
  | { do: 'limits'; requests: number; credits: number };

const credits = fc.integer({ min: 1, max: 12 });
const seconds = fc.constantFrom(1, 1, 2);
const place = fc.nat(8);
const of = <T extends string, F extends object>(what: T, fields: { [K in keyof F]: fc.Arbitrary<F[K]> }) =>
  fc.record({ do: fc.constant(what), ...fields }) as unknown as fc.Arbitrary<{ do: T } & F>;

const command: fc.Arbitrary<StackCommand> = fc.oneof(
  { weight: 4, arbitrary: of('wait', { ms: fc.constantFrom(20, 100, 300, 600) }) },
  {
    weight: 4,
    arbitrary: of('grant', {
      credits,
      priority: fc.constantFrom(10, 50, 50),
      beginsIn: fc.constantFrom(0, 0, 0, 300, 700),
      /** 0: it has no end. */
      lasts: fc.constantFrom(0, 1_000, 1_000, 1_500),
    }),
  },
  { weight: 1, arbitrary: of('void', { grant: place }) },
  { weight: 1, arbitrary: of('schedule', { credits, most: credits, turnsIn: fc.constantFrom(800, 1_500) }) },
  { weight: 1, arbitrary: of('refill', { credits }) },
  { weight: 7, arbitrary: of('verify', { credits: fc.nat(9) }) },
  { weight: 5, arbitrary: of('hold', { credits, seconds, onExpiry: fc.constantFrom('release', 'charge') }) },
  { weight: 5, arbitrary: of('capture', { hold: place, credits: fc.nat(12) }) },
  { weight: 1, arbitrary: of('release', { hold: place }) },
  { weight: 1, arbitrary: of('extend', { hold: place, seconds }) },
  { weight: 2, arbitrary: of('adjust', { credits: fc.integer({ min: -9, max: 5 }).filter((amount) => amount !== 0) }) },
  {
    weight: 1,
    arbitrary: of('settings', { allowOverages: fc.boolean(), spendCap: fc.constantFrom(null, '20', '60') }),
  },
  { weight: 1, arbitrary: of('limits', { requests: fc.constantFrom(2, 20), credits: fc.constantFrom(20, 2_000) }) },
) as fc.Arbitrary<StackCommand>;

/** Commands to one record. */
export const stackSequences = (length: number) => fc.array(command, { minLength: 5, maxLength: length, size: 'max' });
