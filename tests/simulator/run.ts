import { makeCrew, type Seed } from './crew.ts';
import { faultKinds, makeFaults, type Fault } from './faults.ts';
import { rest } from './rest.ts';
import type { Stage } from './stage.ts';
import { makeWork, workKinds } from './work.ts';
import { makeOtherWork, otherKinds } from './work/all.ts';
import { billedKinds } from './work/billed.ts';

/** Which steps of a seed are done, and without which faults. */
export type Plan = { seed: number; steps: readonly number[]; without?: readonly Fault[] };
export type Result = { broken: string[]; trace: string[] };

// What a step may be, and how often.
const ownKinds = { deliver: 2, job: 2, time: 25, hours: 1 };
const kinds: Record<string, number> = { ...otherKinds, ...workKinds, ...ownKinds, ...faultKinds };

/**
 * Runs a seed: does the steps of the plan, brings everything to rest, and proves the books. What a step does follows from the seed and
 * its number alone, so that a plan can leave out others.
 */
export async function runSeed(stage: Stage, { seed, steps, without = [] }: Plan): Promise<Result> {
  const { servers, beginning } = stage;
  const simulation = await stage.begin(seed);
  const { random, say } = simulation;
  const crew = makeCrew(simulation, servers, seed % 4 === 3 ? 'kafka' : 'redis');
  const work = makeWork(simulation, beginning, crew);
  const others = makeOtherWork({ simulation, home: beginning, fleet: crew, ...work }, beginning.begun);
  const running: Seed = { simulation, stage, crew, work, others, pass, settle, runOne };
  const { faults, ...trouble } = makeFaults(running);
  const doings: Record<string, () => Promise<void>> = {
    ...faults,
    time: () => pass(random.pick([10, 50, 200, 1_000, 3_000]) + random.below(10), 0.25),
    hours,
    job,
    deliver: () => crew.startDelivering(others),
  };
  // What bills are made of takes a while at the end.
  const ofSeed = seed % 6 === 2 ? { ...kinds, ...billedKinds } : kinds;
  const actions: Record<string, () => Promise<void>> = { ...work.actions, ...others.actions };
  let isJobUnderWay = false;

  crew.startAll();
  await pass(300);
  for (const step of steps) {
    if (work.broken.length > 0) break;
    random.reseed(seed * 100_003 + step);
    const name = random.weighted(ofSeed);
    trouble.step();
    if (doings[name]) await (without.includes(name as Fault) ? undefined : doings[name]());
    else void actions[name]!().catch((error: Error) => work.breaks(String(error.stack)));
    await simulation.quiet();
    for (let some = random.below(25); some > 0 && (await runOne()); some--);
  }
  random.reseed(seed);
  if (work.broken.length === 0) {
    await trouble.end();
    await rest(running);
  }
  const result = { broken: [...work.broken], trace: [...simulation.trace] };
  for (const process of crew.living()) await simulation.kill(process);
  return result;

  async function pass(ms: number, wakes = 1): Promise<void> {
    await simulation.advance(ms, wakes);
    await servers.postgres.tick();
    await servers.redis.tick();
  }

  async function settle(): Promise<void> {
    for (let done = 0; await runOne(); done++) {
      if (done > 5_000)
        throw new Error(`requests follow each other without an end: ${simulation.waiting().join('; ')}`);
    }
  }

  /** Does a request, and what was to happen after it. */
  async function runOne(): Promise<boolean> {
    const ran = await simulation.runOne();
    for (const then of trouble.takeNext()) await then();
    return ran;
  }

  async function hours(): Promise<void> {
    if (random.chance(0.7)) return pass(3_600_000, 0.5);
    // An account keeps what an ended grant gave for a day: no api is stopped for so long.
    crew.startAll();
    for (let round = 0, calm = 0; calm < 2 && round < 30; round++) {
      await settle();
      // Who waits in a transaction for another process keeps Postgres from all others.
      calm = simulation.waiting().length === 0 ? calm + 1 : 0;
      await pass(1_000);
    }
    await settle();
    return pass(26 * 3_600_000, 0.5);
  }

  async function job(): Promise<void> {
    const consumer = crew.consumer();
    const wanted = random.pick(['rollup', 'close-months', 'plan-meters', 'plan-meters']);
    const begun = consumer?.jobs.find(({ name }) => name === wanted);
    if (!consumer || !begun || isJobUnderWay) return;
    isJobUnderWay = true;
    say(`${consumer.process.name} begins ${begun.name}`);
    // What fails is done at its next time.
    void Promise.race([begun.work(new AbortController().signal), consumer.process.died])
      .catch(() => {})
      .finally(() => (isJobUnderWay = false));
  }
}
