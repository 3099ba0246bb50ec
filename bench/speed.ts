import { onOwnCore } from './cores.ts';
import { startContenders, type ContenderWorlds } from './contenders.ts';
import { creditsOverspent, rateOverAdmitted } from './exact.ts';
import { figuresOf } from './figures.ts';
import { measureMemory, measureWorkers, takeProfile } from './fresh.ts';
import { overloaded } from './overload.ts';
import type { HowLong, Part } from './part.ts';
import { measurePeers } from './peers.ts';
import { drawChart, printBeside, printOverload, printProfile, printScripts, printWorkers } from './report.ts';
import { mediansOf, runRounds, type Seen } from './rounds.ts';
import { bytesOfKey, measureScript } from './script-speed.ts';
import type { Stage } from './stage.ts';
import { answerOf, bodyOf, CREDITS_CALLS, makeWorld, RATE, type World } from './world.ts';

/** How many keys the large world has, and whether to measure peers. */
type SpeedOptions = HowLong & { keys: number; withPeers: boolean };

/**
 * Measures how fast verify is without the way into the books, each figure as a ratio of two things measured in one run, how
 * exact it is at that speed, and how its peers do.
 */
export async function measureSpeed(stage: Stage, options: SpeedOptions): Promise<Part> {
  const { keys, withPeers, seconds } = options;
  const small = await makeWorld(stage, 'small', 1_000);
  const large = await makeWorld(stage, 'large', keys);
  const { busy, quiet } = await measureContenders(stage, { small, large, answer: await answerOf(small) }, options);
  const script = await measureScript(small, 1);
  const limit = await measureScript(small, 50);
  const bytes = await bytesOfKey(small);
  const memory = await measureMemory(stage, small);
  const exact = await checkExact(stage, small);
  const peers = withPeers ? await measurePeers(stage, options) : [];
  const scaling = await measureWorkers(stage, small, seconds);
  const profile = await takeProfile(stage, small);
  const { figures, bare, ours } = figuresOf({ busy, quiet, script, bytes, memory, keys });
  const phases = await overloaded(small, ours.perSecond);
  return {
    figures,
    exact: exact.credits === 0 && exact.rate === 0,
    charts: { 'verify.svg': drawChart(bare, ours, peers) },
    print() {
      printScripts(script, limit);
      printBeside(bare, ours, exact, peers);
      printOverload(phases);
      printWorkers(scaling);
      printProfile(ours.cpuUs.server!, profile);
    },
  };
}

/** Measures verify beside bare servers, in fresh processes each time: the medians of all rounds. */
async function measureContenders(stage: Stage, worlds: ContenderWorlds, { rounds, seconds, processes }: HowLong) {
  const ofEach = { rounds: Math.ceil(rounds / processes), seconds };
  const busy: Seen[] = [];
  const quiet: Seen[] = [];
  for (let one = 1; one <= processes; one++) {
    const { many, few, stop } = await startContenders(stage, worlds);
    const which = `process ${one} of ${processes}`;
    busy.push(await onOwnCore(stage, many, () => runRounds(`64 connections, ${which}`, many, ofEach)));
    quiet.push(await runRounds(`one connection, ${which}`, few, ofEach));
    await stop();
  }
  return { busy: mediansOf(busy), quiet: mediansOf(quiet) };
}

async function checkExact(stage: Stage, world: World): Promise<{ credits: number; rate: number }> {
  const limited = (key: string) => ({ url: world.url, token: world.token, folder: stage.folder, body: bodyOf(key) });
  const credits = await creditsOverspent(limited(world.credits), CREDITS_CALLS);
  const rate = await rateOverAdmitted(limited(world.rate), RATE);
  await world.clear();
  return { credits, rate };
}
