import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure, NotReadyError, StackError } from './errors.ts';
import { shortenLog } from './log-file.ts';
import { record, stopRecorded, writeRecords, type Recorded } from './leftovers.ts';
import { start, untilReady, yieldCores, type Program, type Started } from './program.ts';

export type Supervisor = ReturnType<typeof makeSupervisor>;

interface Options {
  folder: string;
  logFile: (name: string) => string;
  say: (line: string) => void;
  readyWithinMs?: number;
}

// Before a program is started again: well below the two seconds within which it must run, and long enough for one that keeps ending.
const PAUSE_MS = 500;
const KEEP_HOUSE_EVERY_MS = 1_000;

/** Keeps programs running, and lists their processes in `processes.json`. */
export function makeSupervisor({ folder, logFile, say, readyWithinMs }: Options) {
  const running = new Map<string, Recorded>();
  const launching = new Set<Promise<unknown>>();
  // The programs to start again when they end. A removed program may be added again before its old process has ended.
  const kept = new Map<string, Program>();
  let stopping = false;
  let isListed = true;
  const over = new AbortController();
  const house = keepHouse();

  return {
    /**
     * Starts a program and waits until it is ready. From then on the supervisor starts it again whenever it ends. One that takes
     * too long is stopped, and that is thrown; with `onLate` it runs on, and that is told.
     */
    async add(program: Program, onLate?: (why: NotReadyError) => void): Promise<void> {
      kept.set(program.name, program);
      const first = await launch(program);
      try {
        await untilReady(program, first, logFile(program.name), readyWithinMs);
      } catch (error) {
        if (!(error instanceof NotReadyError && onLate)) {
          await stopRecorded([record(program, first)], []);
          forget(program.name);
          throw error;
        }
        onLate(error);
      }
      void keepRunning(program, first);
    },
    /** Stops a program for good. */
    async remove(name: string): Promise<void> {
      kept.delete(name);
      const one = running.get(name);
      if (one) await stopRecorded([one], []);
      forget(name);
    },
    /** Stops all programs: those in `order` one after the other, then the rest together. */
    async stop(order: readonly string[]): Promise<void> {
      stopping = true;
      await Promise.allSettled(launching);
      await stopRecorded([...running.values()], order, (name, clean) => {
        forget(name);
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
      running.set(program.name, record(program, started));
      list();
      return started;
    } finally {
      launching.delete(starting);
    }
  }

  async function keepRunning(program: Program, first: Started): Promise<void> {
    const isOver = () => stopping || kept.get(program.name) !== program;
    let started: Started | undefined = first;
    for (;;) {
      const how = started ? await started.ended : 'could not be started';
      if (isOver()) return;
      forget(program.name);
      say(`${program.name} ${how}; starting it again in ${PAUSE_MS} ms`);
      await sleep(PAUSE_MS);
      if (isOver()) return;
      started = await launch(program).catch((error: unknown) => {
        say(describeFailure(error));
        return undefined;
      });
    }
  }

  function forget(name: string): void {
    running.delete(name);
    list();
  }

  function list(): void {
    isListed = false;
    try {
      writeRecords(folder, [...running.values()]);
      isListed = true;
    } catch {
      // A full disk must not end the one process that keeps the others running. It is written, or said why not, within a second.
    }
  }

  /** Shortens logs that grow too large, our own among them, and writes what a full disk did not take, until all is over. */
  async function keepHouse(): Promise<void> {
    let told = '';
    while (!over.signal.aborted) {
      const failed = (await tidy()).join('; ');
      // Once, not every second for as long as a disk is full.
      if (failed !== '' && failed !== told) say(`the logs or processes.json could not be written: ${failed}`);
      told = failed;
      await sleep(KEEP_HOUSE_EVERY_MS, undefined, { signal: over.signal, ref: false }).catch(() => {});
    }
  }

  /** Does each part even where another one fails. Gives what failed. */
  async function tidy(): Promise<string[]> {
    const failures = new Set<string>();
    const attempt = async (work: () => unknown) => {
      try {
        await work();
      } catch (error) {
        failures.add(describeFailure(error));
      }
    };
    await attempt(() => {
      if (!isListed) writeRecords(folder, [...running.values()]);
      isListed = true;
    });
    for (const file of ['supervisor', ...kept.keys()].map(logFile))
      await attempt(async () => {
        while (await shortenLog(file));
      });
    return [...failures];
  }
}
