import { sum } from '../../shared/books/sums/booked.ts';
import { ms, us, type Figure } from '../results.ts';
import type { Measured } from '../rounds.ts';
import { ALL_LIMITS, ALONE, BARE, BATCHES_OF_32, CAPTURE, KOA, IDLE, KOA_GUARDED, ONE_CALL } from './rows.ts';

/** The rows that were measured, by name. */
export type Costs = Map<string, Measured>;

/** A row, what it is compared with, and what of both; `value` is their ratio unless it is given. */
type Target = Pick<Figure, 'what' | 'must' | 'aim'> & {
  row: string;
  against: string;
  of(row: Measured): number;
  value?(row: Measured, against: Measured, bare: Measured): number;
};

const appUs = ({ cpuUs }: Measured) => cpuUs.app ?? NaN;
const redisUs = ({ cpuUs }: Measured) => cpuUs.redis ?? NaN;
const p99Us = (row: Measured) => row.p99Us;

const all = { against: BARE, of: wholeUs };
const ofRedis = { against: ONE_CALL, of: redisUs };
const targets: Target[] = [
  { row: IDLE, what: 'the idle stack, % of a core', must: 2, aim: 1, ...all, value: (row) => wholeUs(row) / 10_000 },
  { row: ONE_CALL, what: 'one call a request: CPU of all processes, against bare', must: 2.8, aim: 2.5, ...all },
  { row: BATCHES_OF_32, what: 'batches of 32: CPU per call of all, against bare', must: 1.5, aim: 1.25, ...all },
  {
    row: KOA_GUARDED,
    what: 'Koa behind the guard: CPU above the bare app, against bare',
    must: 1.2,
    aim: 0.8,
    against: KOA,
    of: appUs,
    value: (row, app, bare) => (appUs(row) - appUs(app)) / appUs(bare),
  },
  { row: ALONE, what: `${ALONE}: CPU of its program, against bare`, must: 8, aim: 6.5, against: BARE, of: appUs },
  { row: ONE_CALL, what: 'p99 with the pipeline running, against bare', must: 2.5, aim: 2, against: BARE, of: p99Us },
  { row: ALL_LIMITS, what: `${ALL_LIMITS}: CPU of Redis, against a plain call`, must: 2, aim: 2, ...ofRedis },
  { row: CAPTURE, what: `${CAPTURE}: CPU of Redis, against a plain call`, must: 1, aim: 1, ...ofRedis },
];

/** What verifications cost against what they may, in requests of the bare server; only of rows that were measured. */
export function costFigures(costs: Costs): Figure[] {
  const bare = costs.get(BARE)!;
  return targets.flatMap(({ row: name, against, of, value, ...target }) => {
    const [row, other] = [costs.get(name), costs.get(against)];
    if (!row || !other) return [];
    const shown = of === p99Us ? ms : us;
    const seen = `${shown(of(row))} against ${shown(of(other))}`;
    return { ...target, lessIsBetter: true, value: value?.(row, other, bare) ?? of(row) / of(other), seen };
  });
}

/** The CPU of all processes per call, in µs. */
export function wholeUs({ cpuUs }: Pick<Measured, 'cpuUs'>): number {
  return sum(Object.values(cpuUs));
}
