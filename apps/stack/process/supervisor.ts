import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure, NotReadyError, StackError } from './errors.ts';
import { shortenLog } from './log-file.ts';
import { record, stopRecorded, writeRecords, type Recorded } from './leftovers.ts';
import { start, untilReady, yieldCores, type Program, type Started } from './program.ts';

export interface Supervisor {
  /**
   * Starts a program and waits until it is ready. From then on the supervisor starts it again whenever it ends. One that takes too
   * long is stopped, and that is thrown; with `onLate` it runs on, and that is told.
   */
  add(program: Program, onLate?: (why: NotReadyError) => void): Promise<void>;
  /** Stops a program for good. */
  remove(name: string): Promise<void>;
  /** Stops all programs: those in `order` one after the other, then the rest together. */
  stop(order: readonly string[]): Promise<void>;
}

interface Options {
  folder: string;
  logFile: (name: string) => string;
  say: (line: string) => void;
  readyWithinMs?: number;
}

// The pause before a program is started again: short while it may have been an accident, longer when it keeps ending, and
// always below the two seconds within which it must run again.
const pausesMs = [50, 200, 500, 1_000, 1_500];
const STEADY_AFTER_MS = 10_000;
const KEEP_HOUSE_EVERY_MS = 1_000;

/** Keeps programs running, and lists their processes in `processes.json`. */
export function makeSupervisor({ folder, logFile, say, readyWithinMs }: Options): Supervisor {
  const running = makeRunningList(folder);
  const launching = new Set<Promise<unknown>>();
  // The programs to start again when they end. A removed program may be added again before its old process has ended.
  const kept = new Map<string, Program>();
  let stopping = false;
  const over = new AbortController();
  const files = () => ['supervisor', ...kept.keys()].map(logFile);
  const house = keepHouse({ files, running, say, stopped: over.signal });

  return {
    async add(program, onLate) {
      kept.set(program.name, program);
      const first = await launch(program);
      try {
        await untilReady(program, first, logFile(program.name), readyWithinMs);
      } catch (error) {
        if (!(error instanceof NotReadyError && onLate)) {
          await stopRecorded([record(program, first)], []);
          running.remove(program.name);
          throw error;
        }
        onLate(error);
      }
      const isOver = () => stopping || kept.get(program.name) !== program;
      void keepRunning({ program, first, isOver, onEnd: () => running.remove(program.name), launch, say });
    },
    async remove(name) {
      kept.delete(name);
      await stopRecorded(
        running.records().filter((one) => one.name === name),
        [],
      );
      running.remove(name);
    },
    async stop(order) {
      stopping = true;
      await Promise.allSettled(launching);
      await stopRecorded(running.records(), order, (name, clean) => {
        running.remove(name);
        say(clean ? `${name} stopped` : `${name} did not stop in time and was ended`);
      });
      // From then on another supervisor may have the folder.
      over.abort();
      await house;
    },
  };

  async function launch(program: Program): Promise<Started> {
    if (stopping) throw new StackError(`${program.name} was not started: the stack is stopping`);
    const starting = start(program, logFile(program.name));
    launching.add(starting);
    try {
      const started = await starting;
      if (program.yields) yieldCores(started.pid);
      running.add(record(program, started));
      return started;
    } finally {
      launching.delete(starting);
    }
  }
}

interface Keeping {
  program: Program;
  first: Started;
  /** Whether the program is to stay down from now on. */
  isOver(): boolean;
  onEnd(): void;
  launch(program: Program): Promise<Started>;
  say(line: string): void;
}

/** Starts a program again whenever it ends, until that is over. */
async function keepRunning({ program, first, isOver, onEnd, launch, say }: Keeping): Promise<void> {
  const pauseAfter = makePauses();
  let started: Started | undefined = first;
  for (;;) {
    const since = performance.now();
    const how = started ? await started.ended : 'could not be started';
    if (isOver()) return;
    onEnd();
    const pauseMs = pauseAfter(performance.now() - since);
    say(`${program.name} ${how}; starting it again in ${pauseMs} ms`);
    await sleep(pauseMs);
    if (isOver()) return;
    started = await launch(program).catch((error: unknown) => {
      say(describeFailure(error));
      return undefined;
    });
  }
}

/** Gives the pause after a program ran for so long and ended: longer from one to the next while it never ran for long. */
export function makePauses(): (ranMs: number) => number {
  let failures = 0;
  return (ranMs) => {
    const steady = ranMs > STEADY_AFTER_MS;
    const pauseMs = pausesMs[steady ? 0 : Math.min(failures, pausesMs.length - 1)] ?? 0;
    failures = steady ? 1 : failures + 1;
    return pauseMs;
  };
}

type House = { files: () => string[]; running: RunningList; say: (line: string) => void; stopped: AbortSignal };

/** Shortens logs that grow too large, the supervisor's own among them, and writes what a full disk did not take, until stopped. */
async function keepHouse({ files, running, say, stopped }: House): Promise<void> {
  let told = '';
  while (!stopped.aborted) {
    const failures: string[] = [];
    const attempt = async (what: string, work: () => unknown) => {
      try {
        await work();
      } catch (error) {
        failures.push(`${what}: ${describeFailure(error)}`);
      }
    };
    await attempt('processes.json could not be written', () => running.writeMissed());
    for (const file of files())
      await attempt(`${file} could not be shortened`, async () => {
        while (await shortenLog(file));
      });
    // Once, not every second for as long as a disk is full.
    const failed = failures.join('\n');
    if (failed !== '' && failed !== told) say(failed);
    told = failed;
    await sleep(KEEP_HOUSE_EVERY_MS, undefined, { signal: stopped, ref: false }).catch(() => {});
  }
}

type RunningList = ReturnType<typeof makeRunningList>;

/** The processes that run, by name, and the file that lists them. */
function makeRunningList(folder: string) {
  const running = new Map<string, Recorded>();
  let missed = false;
  const write = () => {
    missed = true;
    writeRecords(folder, [...running.values()]);
    missed = false;
  };
  // A full disk must not end the one process that keeps the others running.
  const tryToWrite = () => {
    try {
      write();
    } catch {
      // It is written, or said why not, within a second.
    }
  };
  return {
    records: () => [...running.values()],
    add(one: Recorded) {
      running.set(one.name, one);
      tryToWrite();
    },
    remove(name: string) {
      running.delete(name);
      tryToWrite();
    },
    writeMissed: () => missed && write(),
  };
}
