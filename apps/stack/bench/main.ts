// How fast verify is on this machine, each figure as a ratio of two things measured in one run, how exact it is while it
// is that fast, and how its peers do: node apps/stack/bench/main.ts [--rounds N] [--seconds N] [--keys N] [--no-peers]
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { readMetric, showProgress, usageOf } from '../bench-watch.ts';
import { table } from '../demo-print.ts';
import { describeFailure, StackError } from '../errors.ts';
import { checkout } from '../home.ts';
import { freePorts } from '../ports.ts';
import { answersOk, type Program } from '../program.ts';
import { ourProgram } from '../programs.ts';
import { makeTestFolder, removeTestFolder } from '../test-servers.ts';
import { chart, type Bar } from './chart.ts';
import { creditsOverspent, rateOverAdmitted } from './exact.ts';
import { overloaded } from './overload.ts';
import { measurePeers, type PeerResult } from './peers.ts';
import { readProfile } from './profile.ts';
import { printFigures, whole, type Figure } from './results.ts';
import { measure, type Contender, type Measured } from './rounds.ts';
import { bytesOfKey, measureScript } from './script-speed.ts';
import { bodyOf, CREDITS_CALLS, makeStage, makeWorld, RATE, verifyOnce, type Stage, type World } from './stage.ts';
import { ensureWrk, load, type Load } from './wrk.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    keys: { type: 'string', default: '1000000' },
    chart: { type: 'string' },
    'no-peers': { type: 'boolean', default: false },
  },
});
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
const folder = await makeTestFolder();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => void removeTestFolder(folder).finally(() => process.exit(1)));
}
try {
  await main();
} catch (error) {
  console.error(`keytally: ${error instanceof StackError ? describeFailure(error) : (error as Error).stack}`);
  process.exitCode = 1;
} finally {
  await removeTestFolder(folder);
}
process.exit();

async function main(): Promise<void> {
  if (!(rounds >= 1 && seconds >= 1 && Number(values.keys) >= 1_000)) {
    throw new StackError('usage: bench/main.ts [--rounds N] [--seconds N] [--keys N, 1000 or more] [--no-peers]');
  }
  await ensureWrk(console.log);
  const stage = await makeStage(folder);
  const small = await makeWorld(stage, 'small', 1_000);
  const large = await makeWorld(stage, 'large', Number(values.keys));
  const answer = await verifyOnce(small, bodyOf(small.keys[0]!));
  const bare = await startBare(stage, 'bare', answer);
  const ping = await startBare(stage, 'bare-ping', answer, small.redisUrl);

  const quiet = await measure(
    'one connection',
    [contender(stage, 'bare-ping', ping, small, 1), own(stage, small, 1)],
    rounds,
  );
  const busy = await measure(
    '64 connections',
    [contender(stage, 'bare', bare, small, 64), own(stage, small, 64), own(stage, large, 64)],
    rounds,
  );
  const script = await measureScript(small);
  const bytes = await bytesOfKey(small);
  const memory = await measureMemory(stage, small);
  const exact = await checkExact(stage, small);
  const peers = values['no-peers'] ? [] : await measurePeers(stage, { rounds, seconds });
  const scaling = await measureWorkers(stage, small);
  const profile = await takeProfile(stage, small);

  const get = (of: Map<string, Measured>, name: string) => of.get(name)!;
  const [bareBusy, ours, ofLarge] = ['bare', 'verify-small', 'verify-large'].map((name) => get(busy, name)) as [
    Measured,
    Measured,
    Measured,
  ];
  const [pinged, alone] = [get(quiet, 'bare-ping'), get(quiet, 'verify-small')];
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
      what: 'script, gathered by 16, against GET',
      value: script.gathered / script.get,
      least: 0.11,
      aim: 0.15,
      seen: `${whole(script.gathered)} of ${whole(script.get)}/s; one by one ${whole(script.single)}/s`,
    },
    {
      what: `throughput with ${whole(Number(values.keys))} keys, against 1,000`,
      value: ofLarge.perSecond / ours.perSecond,
      least: 0.95,
      aim: 0.98,
      seen: `${whole(ofLarge.perSecond)}/s`,
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
  printBeside(bareBusy, ours, exact, peers);
  printOverload(await overloaded(small, ours.perSecond));
  console.log(
    `\nverify processes on one port (WORKERS)\n${table(
      ['workers', '>calls/s'],
      scaling.map(({ workers, perSecond }) => [String(workers), whole(perSecond)]),
    )}`,
  );
  console.log(
    `\nwhere the ${ours.cpuUs.toFixed(1)} µs of CPU of a verification go in verify\n${table(
      ['part', '>share', '>µs'],
      profile.map(({ part, share }) => [part, `${(100 * share).toFixed(0)} %`, (share * ours.cpuUs).toFixed(1)]),
    )}`,
  );
  if (values.chart) writeFileSync(values.chart, drawChart(bareBusy, ours, peers));
  if (!good || exact.credits !== 0 || exact.rate !== 0) process.exitCode = 1;
  await stage.supervisor.stop([]);
}

function own(stage: Stage, world: World, connections: number): Contender {
  return { ...contender(stage, `verify-${world.name}`, world.url, world, connections), after: world.clear };
}

function contender(stage: Stage, name: string, url: string, { bodies, token }: World, connections: number): Contender {
  return { name, pid: stage.pid(name), load: { url, bodies, token, connections, seconds } satisfies Load };
}

async function startBare({ supervisor }: Stage, name: string, answer: string, redisUrl?: string): Promise<string> {
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  await supervisor.add({
    name,
    port,
    command: process.execPath,
    args: [join(checkout, 'apps/stack/bench/bare.ts')],
    env: { PATH: process.env.PATH, PORT: String(port), ANSWER: answer, ...(redisUrl && { REDIS_URL: redisUrl }) },
    isReady: () => answersOk(url),
    stopSignal: 'SIGTERM',
    stopWithinMs: 5_000,
  } satisfies Program);
  return url;
}

/** Resident memory of verify after 200,000 calls and after 2,000,000, in MB. */
async function measureMemory(stage: Stage, world: World): Promise<{ early: number; late: number }> {
  const name = 'verify-fresh';
  const port = await startVerify(stage, world, name, {});
  const rss = async (calls: number) => {
    let done = 0;
    while (done < calls) {
      await load({
        url: `http://127.0.0.1:${port}`,
        bodies: world.bodies,
        token: world.token,
        connections: 64,
        seconds: 2,
      });
      await world.clear();
      done = await readMetric(port, 'keytally_verifications_total');
      showProgress('memory', Math.min(done, calls), calls);
    }
    return usageOf(stage.pid(name))[0]!.rssMb;
  };
  const early = await rss(200_000);
  const late = await rss(2_000_000);
  await stage.supervisor.remove(name);
  return { early, late };
}

async function checkExact(stage: Stage, world: World): Promise<{ credits: number; rate: number }> {
  const limited = (key: string) => ({ url: world.url, token: world.token, folder: stage.folder, body: bodyOf(key) });
  const credits = await creditsOverspent(limited(world.credits), CREDITS_CALLS);
  const rate = await rateOverAdmitted(limited(world.rate), RATE);
  await world.clear();
  return { credits, rate };
}

async function measureWorkers(stage: Stage, world: World): Promise<{ workers: number; perSecond: number }[]> {
  const results = [];
  for (const workers of [1, 2]) {
    const name = `verify-workers-${workers}`;
    const port = await startVerify(stage, world, name, { WORKERS: String(workers) });
    const one = {
      name,
      load: { url: `http://127.0.0.1:${port}`, bodies: world.bodies, token: world.token, connections: 64, seconds },
    };
    const measured = await measure(`WORKERS=${workers}`, [{ ...one, after: world.clear }], 3);
    results.push({ workers, perSecond: measured.get(name)!.perSecond });
    await stage.supervisor.remove(name);
  }
  return results;
}

async function takeProfile(stage: Stage, world: World) {
  const into = join(stage.folder, 'profile');
  mkdirSync(into);
  const port = await startVerify(stage, world, 'verify-profiled', {}, ['--cpu-prof', `--cpu-prof-dir=${into}`]);
  await load({
    url: `http://127.0.0.1:${port}`,
    bodies: world.bodies,
    token: world.token,
    connections: 64,
    seconds: 4,
  });
  await world.clear();
  await stage.supervisor.remove('verify-profiled');
  return readProfile(into);
}

async function startVerify(
  { supervisor }: Stage,
  world: World,
  name: string,
  env: object,
  options: string[] = [],
): Promise<number> {
  const [port = 0] = await freePorts(1);
  const program = ourProgram('verify', name, port, { ...world.env, ...env });
  await supervisor.add({ ...program, args: [...options, ...program.args] });
  return port;
}

function printBeside(
  bare: Measured,
  ours: Measured,
  exact: { credits: number; rate: number },
  peers: PeerResult[],
): void {
  const rows = [
    ['bare node:http', whole(bare.perSecond), ms(bare.p50Us), ms(bare.p99Us), '', ''],
    ['keytally', whole(ours.perSecond), ms(ours.p50Us), ms(ours.p99Us), String(exact.credits), String(exact.rate)],
    ...peers.map((peer) => [
      peer.name,
      whole(peer.perSecond),
      ms(peer.p50Us),
      ms(peer.p99Us),
      String(peer.credits),
      String(peer.rate),
    ]),
  ];
  console.log(
    `\n${table(['64 connections', '>calls/s', '>p50', '>p99', `>overspent of ${whole(CREDITS_CALLS)}`, `>above ${RATE}/s`], rows)}`,
  );
}

function printOverload(phases: Awaited<ReturnType<typeof overloaded>>): void {
  const rows = phases.map(({ name, offered, served, p99Ms, refused, refusedP99Ms, unanswered }) => [
    name,
    whole(offered),
    whole(served),
    `${p99Ms.toFixed(1)} ms`,
    whole(refused),
    refused > 0 ? `${refusedP99Ms.toFixed(1)} ms` : '',
    whole(unanswered),
  ]);
  console.log(
    `\nmore than it can serve (open loop)\n${table(['', '>offered/s', '>served/s', '>p99', '>503/s', '>p99', '>unanswered'], rows)}`,
  );
}

function drawChart(bare: Measured, ours: Measured, peers: PeerResult[]): string {
  const bars: Bar[] = [
    { name: 'bare node:http', value: bare.perSecond, note: `${whole(bare.perSecond)}/s` },
    { name: 'keytally verify', value: ours.perSecond, note: `${whole(ours.perSecond)}/s, exact`, ours: true },
    ...peers.map((peer) => ({
      name: peer.name,
      value: peer.perSecond,
      note: `${whole(peer.perSecond)}/s, ${peer.credits > 0 ? `${whole(peer.credits)} of ${whole(CREDITS_CALLS)} overspent` : 'exact'}`,
    })),
  ];
  const [cpu] = cpus();
  const day = new Date().toISOString().slice(0, 10);
  return chart(
    'Verifications per second, one process, 64 connections',
    `${day}, ${cpus().length} cores ${cpu?.model.trim() ?? ''}, Node ${process.versions.node}; client, Redis and server on one machine`,
    bars,
  );
}

function ms(us: number): string {
  return `${(us / 1000).toFixed(2)} ms`;
}
