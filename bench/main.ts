// Measures how fast verify is on this machine, each figure as a ratio of two things measured in one run, how exact it is at
// that speed, and how its peers do: node bench/main.ts [--rounds N] [--seconds N] [--keys N] [--no-peers]
import '../shared/runtime/require-node.ts';
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';
import { runInTestFolder } from '../tests/runner/servers.ts';
import { startContenders, type ContenderLoad } from './contenders.ts';
import { onOwnCore } from './cores.ts';
import { creditsOverspent, rateOverAdmitted } from './exact.ts';
import { measureMemory, measureWorkers, takeProfile } from './fresh.ts';
import { overloaded } from './overload.ts';
import { measurePeers } from './peers.ts';
import { drawChart, printBeside, printOverload, printProfile, printScripts, printWorkers } from './report.ts';
import { figuresOf } from './figures.ts';
import { printFigures } from './results.ts';
import { mediansOf, runRounds, type Seen } from './rounds.ts';
import { bytesOfKey, measureScript } from './script-speed.ts';
import { makeStage, type Stage } from './stage.ts';
import { answerOf, bodyOf, CREDITS_CALLS, makeWorld, RATE, type World } from './world.ts';
import { ensureWrk } from './wrk.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '6' },
    seconds: { type: 'string', default: '3' },
    keys: { type: 'string', default: '1000000' },
    chart: { type: 'string' },
    'no-peers': { type: 'boolean', default: false },
  },
});
// Luck (where a process's memory lies, in which order V8 compiled its code) is worth a tenth, and stays with a process.
const PROCESSES = 3;

const rounds = Number(values.rounds);
const roundsOfEach = Math.ceil(rounds / PROCESSES);
const seconds = Number(values.seconds);
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(rounds >= 1 && seconds >= 1 && Number(values.keys) >= 1_000)) {
    throw new StackError('usage: bench/main.ts [--rounds N] [--seconds N] [--keys N, 1000 or more] [--no-peers]');
  }
  await ensureWrk(console.log);
  const stage = await makeStage(folder);
  const small = await makeWorld(stage, 'small', 1_000);
  const large = await makeWorld(stage, 'large', Number(values.keys));
  const answer = await answerOf(small);
  const { busy, quiet } = await measureContenders(stage, { small, large, answer, seconds });
  const script = await measureScript(small, 1);
  const limit = await measureScript(small, 50);
  const bytes = await bytesOfKey(small);
  const memory = await measureMemory(stage, small);
  const exact = await checkExact(stage, small);
  const peers = values['no-peers'] ? [] : await measurePeers(stage, { rounds, seconds });
  const scaling = await measureWorkers(stage, small, seconds);
  const profile = await takeProfile(stage, small);

  const { figures, bare, ours } = figuresOf({ busy, quiet, script, bytes, memory, keys: Number(values.keys) });
  const good = printFigures(figures);
  printScripts(script, limit);
  printBeside(bare, ours, exact, peers);
  printOverload(await overloaded(small, ours.perSecond));
  printWorkers(scaling);
  printProfile(ours.cpuUs, profile);
  if (values.chart) writeFileSync(values.chart, drawChart(bare, ours, peers));
  if (!good || exact.credits !== 0 || exact.rate !== 0) process.exitCode = 1;
  await stage.supervisor.stop([]);
}

/** Measures verify beside bare servers, in fresh processes each time: the medians of all rounds. */
async function measureContenders(stage: Stage, load: ContenderLoad) {
  const busy: Seen[] = [];
  const quiet: Seen[] = [];
  for (let one = 1; one <= PROCESSES; one++) {
    const { many, few, stop } = await startContenders(stage, load);
    const which = `process ${one} of ${PROCESSES}`;
    busy.push(await onOwnCore(stage, many, () => runRounds(`64 connections, ${which}`, many, roundsOfEach)));
    quiet.push(await runRounds(`one connection, ${which}`, few, roundsOfEach));
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
