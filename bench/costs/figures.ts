import { ms, us } from '../report.ts';
import type { Figure } from '../results.ts';
import type { Measured } from '../rounds.ts';
import { ALL_LIMITS, ALONE, BARE, BATCHES_OF_32, CAPTURE, guarded, KOA, NEW_ORDERS, ONE_CALL } from './rows.ts';

/** The rows that were measured, by name. */
export type Costs = Map<string, Measured>;
/** A figure, the row that it stands for, in what it is measured, and what of the row it is, unless it is the whole. */
export type CostFigure = Figure & { row: string; measuredIn: string; part?: string };

type Target = Pick<CostFigure, 'what' | 'must' | 'aim' | 'row' | 'part'> & {
  /** The bare server, unless it is said. */
  measuredIn?: string;
  /** What the row is compared with. */
  against: string;
  value(row: Measured, against: Measured, bare: Measured): number;
  seen(row: Measured, against: Measured): string;
};

const inBare: Pick<Target, 'against' | 'value' | 'seen'> = {
  against: BARE,
  value: (row, bare) => wholeUs(row) / wholeUs(bare),
  seen: (row, bare) => `${us(wholeUs(row))} against ${us(wholeUs(bare))}`,
};

const redisOfOneCall: Pick<Target, 'measuredIn' | 'against' | 'value' | 'seen' | 'part'> = {
  measuredIn: 'a plain call',
  part: 'Redis',
  against: ONE_CALL,
  value: (row, call) => redisUs(row) / redisUs(call),
  seen: (row, call) => `${us(redisUs(row))} against ${us(redisUs(call))}`,
};

const targets: Target[] = [
  { row: ONE_CALL, what: 'one call a request: CPU of all processes', must: 2.8, aim: 2.5, ...inBare },
  { row: BATCHES_OF_32, what: 'batches of 32: CPU of all processes, per call', must: 1.5, aim: 1.25, ...inBare },
  {
    row: guarded(KOA),
    part: 'guard',
    what: 'Koa behind the guard: CPU above the bare app',
    must: 1.2,
    aim: 0.8,
    against: KOA,
    value: (row, app, bare) => (appUs(row) - appUs(app)) / appUs(bare),
    seen: (row, app) => `${us(appUs(row))} against ${us(appUs(app))}`,
  },
  {
    row: ALONE,
    what: 'client.verify, one at a time: CPU of its program',
    must: 8,
    aim: 6.5,
    against: BARE,
    value: (row, bare) => appUs(row) / appUs(bare),
    seen: (row, bare) => `${us(appUs(row))} against ${us(appUs(bare))}`,
  },
  {
    row: ONE_CALL,
    part: 'p99',
    what: 'p99 with the pipeline running',
    must: 2.5,
    aim: 2,
    against: BARE,
    value: (row, bare) => row.p99Us / bare.p99Us,
    seen: (row, bare) => `${ms(row.p99Us)} against ${ms(bare.p99Us)}`,
  },
  {
    row: NEW_ORDERS,
    what: `${NEW_ORDERS}: CPU of all processes`,
    must: 3,
    aim: 3,
    measuredIn: 'a plain call',
    against: ONE_CALL,
    value: (row, call) => wholeUs(row) / wholeUs(call),
    seen: (row, call) => `${us(wholeUs(row))} against ${us(wholeUs(call))}`,
  },
  { row: ALL_LIMITS, what: `${ALL_LIMITS}: CPU of Redis`, must: 2, aim: 2, ...redisOfOneCall },
  { row: CAPTURE, what: `${CAPTURE}: CPU of Redis`, must: 1, aim: 1, ...redisOfOneCall },
];

/** What verifications cost against what they may, in requests of the bare server; only of rows that were measured. */
export function costFigures(costs: Costs): CostFigure[] {
  const bare = costs.get(BARE)!;
  return targets.flatMap(({ against, value, seen, what, measuredIn = 'bare', ...target }) => {
    const [row, other] = [costs.get(target.row), costs.get(against)];
    if (!row || !other) return [];
    return {
      ...target,
      measuredIn,
      what: `${what}, against ${measuredIn}`,
      lessIsBetter: true,
      value: value(row, other, bare),
      seen: seen(row, other),
    };
  });
}

/** The CPU of all processes per call, in µs. */
export function wholeUs({ cpuUs }: Pick<Measured, 'cpuUs'>): number {
  return Object.values(cpuUs).reduce((sum, one) => sum + one, 0);
}

function redisUs({ cpuUs }: Measured): number {
  return cpuUs.redis ?? NaN;
}

function appUs({ cpuUs }: Measured): number {
  return cpuUs.app ?? NaN;
}
