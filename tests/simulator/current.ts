import { drawFrom, makeRandom, type Random } from './random.ts';

// What the system gives comes from the seed that runs now. Imported before all others.

export const current: { random: Random; nowMs: () => number } = { random: makeRandom(0), nowMs: () => 0 };
const machineNow = Date.now;
current.nowMs = machineNow;
drawFrom(() => ({ random: current.random, nowMs: current.nowMs() }));
