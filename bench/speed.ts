import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from '../apps/stack/process/ports.ts';
import { ourProgram } from '../apps/stack/servers/programs.ts';
import { number, ms, type Figure, type HowLong, type Part } from './results.ts';
import { mediansOf, runRounds, type Contender, type Measured, type Seen } from './rounds.ts';
import { bytesOfKey, measureScript, type ScriptSpeed } from './script-speed.ts';
import { benchProgram, type Stage } from './stage.ts';
import { answerOf, bodyOf, CREDITS_CALLS, loadOf, makeWorld, RATE, type World } from './world.ts';
import { load } from './wrk.ts';

const EXACT_SECONDS = 3;

/**
 * Measures how fast verify is without the way into the books, each figure as a ratio of two things measured in one run, and how
 * exact it is at that speed.
 */
export async function measureSpeed(stage: Stage, how: HowLong): Promise<Part> {
  const world = await makeWorld(stage, 'speed', 1_000);
  const busy = await measureBeside(stage, world, how);
  const script = await measureScript(world);
  const bytes = await bytesOfKey(world);
  return { figures: [...figuresOf(busy, script, bytes), ...(await exactFigures(stage, world))] };
}

/** Measures verify beside bare servers, in fresh processes each time, since earlier calls shape the code that V8 compiles. */
async function measureBeside(stage: Stage, world: World, { rounds, seconds, processes }: HowLong) {
  const ofEach = { rounds: Math.ceil(rounds / processes), seconds };
  const answer = await answerOf(world);
  const seen: Seen[] = [];
  for (let one = 1; one <= processes; one++) {
    const [bare = 0, verify = 0] = await freePorts(2);
    const programs = [
      benchProgram('bare', 'bare.ts', bare, { ANSWER: answer }),
      ourProgram('verify', 'verify', verify, world.env),
    ];
    for (const program of programs) await stage.start(program);
    const contenders = programs.map(({ name, port }): Contender => ({
      name,
      pids: { server: stage.pidOf(name) },
      load: (seconds) => load({ ...loadOf(world, `http://127.0.0.1:${port}`), seconds }),
      settle: world.clear,
    }));
    const what = `speed, process ${one} of ${processes}`;
    seen.push(await onOwnCore(stage, contenders, () => runRounds(what, contenders, ofEach)));
    for (const { name } of programs) await stage.supervisor.remove(name);
  }
  return mediansOf(seen);
}

/**
 * Measures with the contenders on the first core and everything else, Redis and the load included, on the others. Without
 * this, our server would share two cores among three busy processes, and the bare server would share them between two. Works on
 * Linux only.
 */
async function onOwnCore<T>(stage: Stage, contenders: Contender[], measured: () => Promise<T>): Promise<T> {
  const last = cpus().length - 1;
  if (process.platform !== 'linux' || last === 0) return measured();
  const pids = contenders.flatMap((one) => Object.values(one.pids).flat());
  const others = [process.pid, ...stage.records().map((one) => one.pid)].filter((pid) => !pids.includes(pid));
  try {
    await place(pids, '0');
    await place(others, `1-${last}`);
    return await measured();
  } finally {
    await place([...pids, ...others], `0-${last}`);
  }
}

// Moves all threads of each process.
async function place(pids: number[], cores: string): Promise<void> {
  for (const pid of new Set(pids)) await promisify(execFile)('taskset', ['-acp', cores, String(pid)]);
}

/** Calls with one key as often as possible: as many pass as its credits pay for, and none above its rate limit. */
async function exactFigures({ folder }: Stage, world: World): Promise<Figure[]> {
  const validCalls = async (key: string) => {
    const bodies = join(folder, 'bodies-exact');
    writeFileSync(bodies, `${bodyOf(key)}\n`);
    const how = { ...loadOf({ ...world, bodies }, world.url), also: { COUNT: '1' } };
    return (await load({ ...how, seconds: EXACT_SECONDS })).valid;
  };
  const none = { must: 0, aim: 0, lessIsBetter: true };
  const credits = Math.abs((await validCalls(world.credits)) - CREDITS_CALLS);
  const began = performance.now();
  const valid = await validCalls(world.rate);
  // One second's allowance may be used at once.
  const most = Math.ceil(RATE * ((performance.now() - began) / 1000 + 1));
  await world.clear();
  return [
    { ...none, what: `calls above or below credits for ${number(CREDITS_CALLS)}`, value: credits },
    { ...none, what: `calls above ${RATE} a second`, value: Math.max(0, valid - most), seen: `${valid} in all` },
  ];
}

function figuresOf(busy: Map<string, Measured>, script: ScriptSpeed, bytes: number): Figure[] {
  const [bare, ours] = [busy.get('bare')!, busy.get('verify')!];
  const speed = [ours.perSecond / bare.perSecond, `${number(ours.perSecond)} of ${number(bare.perSecond)}/s`] as const;
  const p99 = [ours.p99Us / bare.p99Us, `${ms(ours.p99Us)} against ${ms(bare.p99Us)}`] as const;
  const scripts = [script.batched / script.get, `${number(script.batched)} of ${number(script.get)}/s`] as const;
  const figure = (what: string, [value, seen]: readonly [number, string], must: number, aim: number): Figure => {
    return { what, value, seen, must, aim, lessIsBetter: must > aim };
  };
  return [
    figure('throughput, 64 connections, against bare node:http', speed, 0.55, 0.7),
    figure('p99 under that load, against the bare one', p99, 4, 2.5),
    figure('script, pipelined 16 deep, against a plain GET', scripts, 0.11, 0.15),
    figure('Redis memory of a key, bytes', [bytes, 'three scopes, small metadata'], 700, 450),
  ];
}
