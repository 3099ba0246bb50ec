import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Hanging, Outcome, Task } from './worker.ts';

/** How many workers have a slot of servers, and another for stores alone; those of files begin above both. */
export const SLOTS_OF_WORKERS = 5;
const ANSWERS_WITHIN_MS = 5_000;

export interface FileResult {
  passed: number;
  failed: number;
  /** Why the file as a whole failed. */
  problem?: string;
  output: string;
  ms: number;
}

/** Runs test files in one process, which is made again where a file ends it or takes too long. */
export interface Worker {
  run(task: Task, withinMs: number): Promise<FileResult>;
  stop(): Promise<void>;
}

/** A process of this checkout, or of the tree `root`. */
export function makeWorker(env: NodeJS.ProcessEnv, root = join(import.meta.dirname, '../..')): Worker {
  let child: ChildProcess | undefined;
  return {
    async run(task, withinMs) {
      const began = performance.now();
      child ??= start(env, root);
      const outcome = await outcomeOf(child, task, withinMs);
      const result = typeof outcome === 'string' ? failedFile(outcome) : judge(outcome);
      if (result.problem) await this.stop();
      return { ...result, ms: performance.now() - began };
    },
    async stop() {
      if (!child) return;
      const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
      try {
        process.kill(-(child.pid as number), 'SIGKILL');
      } catch {
        // Nothing of it is left.
      }
      await ended;
      child = undefined;
    },
  };
}

/** Counts what a file did. A file that ran no test, or skipped one, has failed. */
function judge({ total, passed, skipped, output, problem }: Outcome): Omit<FileResult, 'ms'> {
  if (problem) return { ...failedFile(problem), output };
  if (total === 0) return { ...failedFile('ran no test'), output };
  const failed = total - passed;
  if (skipped > 0) return { passed, failed: failed + skipped, output, problem: `skipped ${skipped} of its tests` };
  return { passed, failed, output, ...(failed > 0 && { problem: `failed ${failed} of its tests` }) };
}

function failedFile(problem: string): Omit<FileResult, 'ms'> {
  return { passed: 0, failed: 1, output: '', problem };
}

// In a process group of its own, so that what a test has started ends with it.
function start(env: NodeJS.ProcessEnv, root: string): ChildProcess {
  const runner = join(root, 'tests/runner');
  return fork(join(runner, 'worker.ts'), {
    cwd: root,
    env,
    detached: true,
    execArgv: ['--import', join(runner, 'uvu-hooks.ts')],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

function outcomeOf(child: ChildProcess, task: Task, withinMs: number): Promise<Outcome | string> {
  return new Promise((resolve) => {
    const problem = `still ran after ${withinMs / 1000} s and was ended`;
    let timer = setTimeout(() => {
      // What it printed shows where it hangs. A file that is busy does not answer.
      child.send({ hangs: problem } satisfies Hanging);
      timer = setTimeout(() => done(problem), ANSWERS_WITHIN_MS);
    }, withinMs);
    const exited = (code: number | null, signal: string | null) => done(`was ended by ${signal ?? `code ${code}`}`);
    function done(outcome: Outcome | string): void {
      clearTimeout(timer);
      child.off('message', done).off('exit', exited);
      resolve(outcome);
    }
    child.on('message', done).on('exit', exited);
    child.send(task);
  });
}
