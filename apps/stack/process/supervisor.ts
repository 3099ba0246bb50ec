import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure, StackError } from './errors.ts';
import { replaceFile } from './json-file.ts';
import { record, stopRecorded, writeRecords, type Recorded } from './leftovers.ts';
import { stopProcess } from './processes.ts';
import { start, untilReady, type Program, type Started } from './program.ts';

export interface Supervisor {
  /** Starts a program and waits until it is ready; from then on it is started again whenever it ends. */
  add(program: Program): Promise<void>;
  /** Stops a program for good. */
  remove(name: string): Promise<void>;
  /** Stops all: those named one after the other, then the rest together. */
  stop(order: readonly string[]): Promise<void>;
}

interface Options {
  folder: string;
  logFile: (name: string) => string;
  say: (line: string) => void;
}

// Before a program is started again: soon while it may have been an accident, slower when it keeps ending, and never
// later than the two seconds within which it must run again.
const pausesMs = [50, 200, 500, 1_000, 1_500];
const STEADY_AFTER_MS = 10_000;

/** Keeps programs running, and tells in `processes.json` and `children.json` which processes they are. */
export function makeSupervisor({ folder, logFile, say }: Options): Supervisor {
  const running = new Map<string, Recorded>();
  const launching = new Set<Promise<unknown>>();
  // Those that are started again. One that was removed may be added anew before its old process is seen to have ended.
  const kept = new Map<string, Program>();
  let stopping = false;
  let retry: NodeJS.Timeout | undefined;

  return {
    async add(program) {
      kept.set(program.name, program);
      const first = await launch(program);
      try {
        await untilReady(program, first, logFile(program.name));
      } catch (error) {
        await stopProcess(first, program.stopSignal, program.stopWithinMs);
        running.delete(program.name);
        write();
        throw error;
      }
      void keep(program, first);
    },
    async remove(name) {
      kept.delete(name);
      await stopRecorded(
        [...running.values()].filter((one) => one.name === name),
        [],
      );
      running.delete(name);
      write();
    },
    async stop(order) {
      stopping = true;
      await Promise.allSettled(launching);
      await stopRecorded([...running.values()], order, (name, clean) => {
        running.delete(name);
        write();
        say(clean ? `${name} stopped` : `${name} did not stop in time and was ended`);
      });
      clearTimeout(retry);
    },
  };

  async function launch(program: Program): Promise<Started> {
    if (stopping) throw new StackError(`${program.name} was not started: the stack is stopping`);
    const starting = start(program, logFile(program.name));
    launching.add(starting);
    try {
      const started = await starting;
      running.set(program.name, record(program, started));
      write();
      return started;
    } finally {
      launching.delete(starting);
    }
  }

  async function keep(program: Program, first: Started): Promise<void> {
    let started: Started | undefined = first;
    let failures = 0;
    for (;;) {
      const since = performance.now();
      const how = started ? await started.ended : 'could not be started';
      if (stopping || kept.get(program.name) !== program) return;
      running.delete(program.name);
      write();
      const steady = performance.now() - since > STEADY_AFTER_MS;
      const pauseMs = pausesMs[steady ? 0 : Math.min(failures, pausesMs.length - 1)] ?? 0;
      failures = steady ? 1 : failures + 1;
      say(`${program.name} ${how}; starting it again in ${pauseMs} ms`);
      await sleep(pauseMs);
      if (stopping || kept.get(program.name) !== program) return;
      started = await launch(program).catch((error: unknown) => {
        say(describeFailure(error));
        return undefined;
      });
    }
  }

  // A full disk must not end the one process that keeps the others running: written again until it succeeds.
  function write(): void {
    clearTimeout(retry);
    try {
      const processes = [...running.values()].map(({ name, pid, port }) => [name, { pid, port }]);
      writeRecords(folder, [...running.values()]);
      replaceFile(join(folder, 'processes.json'), `${JSON.stringify(Object.fromEntries(processes), null, 2)}\n`, 0o644);
    } catch (error) {
      say(`processes.json could not be written: ${describeFailure(error)}`);
      retry = setTimeout(write, 1_000);
    }
  }
}
