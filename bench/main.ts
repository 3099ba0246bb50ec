// How fast verify is on this machine, each figure as a ratio of two things measured in one run, how exact it is while it
// is that fast, and how its peers do: node bench/main.ts [--rounds N] [--seconds N] [--keys N] [--no-peers]
import '../shared/runtime/require-node.ts';
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';
import { runInTestFolder } from '../tests/runner/servers.ts';
import { startContenders } from './contenders.ts';
import { onOwnCore } from './cores.ts';
import { creditsOverspent, rateOverAdmitted } from './exact.ts';
import { measureMemory, measureWorkers, takeProfile } from './fresh.ts';
import { overloaded } from './overload.ts';
import { measurePeers } from './peers.ts';
import { drawChart, ms, printBeside, printOverload, printProfile, printScripts, printWorkers } from './report.ts';
import { printFigures, whole, type Figure } from './results.ts';
import { mediansOf, runRounds, type Measured, type Seen } from './rounds.ts';
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
// What a process has of luck, where its memory lies and in which order V8 compiled what, is worth a tenth and stays with it.
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
  const busySeen: Seen[] = [];
  const quietSeen: Seen[] = [];
  for (let one = 1; one <= PROCESSES; one++) {
    const { many, few, stop } = await startContenders(stage, { small, large, answer, seconds });
    const which = `process ${one} of ${PROCESSES}`;
    busySeen.push(await onOwnCore(stage, many, () => runRounds(`64 connections, ${which}`, many, roundsOfEach)));
    quietSeen.push(await runRounds(`one connection, ${which}`, few, roundsOfEach));
    await stop();
  }
  const busy = mediansOf(busySeen);
  const quiet = mediansOf(quietSeen);
  const script = await measureScript(small, 1);
  const limit = await measureScript(small, 50);
  const bytes = await bytesOfKey(small);
  const memory = await measureMemory(stage, small);
  const exact = await checkExact(stage, small);
  const peers = values['no-peers'] ? [] : await measurePeers(stage, { rounds, seconds });
  const scaling = await measureWorkers(stage, small, seconds);
  const profile = await takeProfile(stage, small);

  const get = (of: Map<string, Measured>, name: string) => of.get(name)!;
  const [bareBusy, ours] = [get(busy, 'bare'), get(busy, 'small')];
  const [ofLarge, gateway] = [get(busy, 'large'), get(busy, 'gateway')];
  const [pinged, alone] = [get(quiet, 'bare-ping'), get(quiet, 'small')];
  const figures: Figure[] = [
    {
      what: 'throughput, 64 connections, against bare node:http',
      value: ours.perSecond / bareBusy.perSecond,
      least: 0.55,
      aim: 0.7,
      seen: `${whole(ours.perSecond)} of ${whole(bareBusy.perSecond)}/s`,
    },
    {
      what: 'p99 under that load, against the bare one',
      value: ours.p99Us / bareBusy.p99Us,
      least: 4,
      aim: 2.5,
      lessIsBetter: true,
      seen: `${ms(ours.p99Us)} against ${ms(bareBusy.p99Us)}`,
    },
    {
      what: 'script, pipelined 16 deep, against a plain GET',
      value: script.gathered / script.get,
      least: 0.11,
      aim: 0.15,
      seen: `${whole(script.gathered)} of ${whole(script.get)}/s`,
    },
    {
      what: `throughput with ${whole(Number(values.keys))} keys, against 1,000`,
      value: ofLarge.perSecond / ours.perSecond,
      least: 0.95,
      aim: 0.98,
      seen: `${whole(ofLarge.perSecond)}/s`,
    },
    {
      what: 'throughput of the endpoint for gateways, against verify',
      value: gateway.perSecond / ours.perSecond,
      least: 0.9,
      aim: 1,
      seen: `${whole(gateway.perSecond)}/s`,
    },
    {
      what: 'Redis memory of a key, bytes',
      value: bytes,
      least: 700,
      aim: 450,
      lessIsBetter: true,
      seen: 'three scopes, small metadata',
    },
    {
      what: 'p50, one connection, against bare and a PING',
      value: alone.p50Us / pinged.p50Us,
      least: 1.5,
      aim: 1.2,
      lessIsBetter: true,
      seen: `${ms(alone.p50Us)} against ${ms(pinged.p50Us)}`,
    },
    {
      what: 'memory after 2,000,000 calls, against 200,000',
      value: memory.late / memory.early,
      least: 1.05,
      aim: 1,
      lessIsBetter: true,
      seen: `${whole(memory.late)} against ${whole(memory.early)} MB`,
    },
  ];
  const good = printFigures(figures);
  printScripts(script, limit);
  printBeside(bareBusy, ours, exact, peers);
  printOverload(await overloaded(small, ours.perSecond));
  printWorkers(scaling);
  printProfile(ours.cpuUs, profile);
  if (values.chart) writeFileSync(values.chart, drawChart(bareBusy, ours, peers));
  if (!good || exact.credits !== 0 || exact.rate !== 0) process.exitCode = 1;
  await stage.supervisor.stop([]);
}

async function checkExact(stage: Stage, world: World): Promise<{ credits: number; rate: number }> {
  const limited = (key: string) => ({ url: world.url, token: world.token, folder: stage.folder, body: bodyOf(key) });
  const credits = await creditsOverspent(limited(world.credits), CREDITS_CALLS);
  const rate = await rateOverAdmitted(limited(world.rate), RATE);
  await world.clear();
  return { credits, rate };
}
