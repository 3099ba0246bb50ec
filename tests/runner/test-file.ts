import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

export interface FileResult {
  passed: number;
  failed: number;
  /** Why the file as a whole failed. */
  problem?: string;
  output: string;
  ms: number;
}

interface Options {
  env: NodeJS.ProcessEnv;
  withinMs: number;
  signal: AbortSignal;
}

const uvuHooks = join(import.meta.dirname, 'uvu-hooks.ts');

/** Runs one test file in a process of its own and reads uvu's summary. */
export async function runTestFile(file: string, { env, withinMs, signal }: Options): Promise<FileResult> {
  const started = performance.now();
  // In a process group of its own, so that the processes it started end with it.
  const child = spawn(process.execPath, ['--import', uvuHooks, file], {
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  let late = false;
  const end = () => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL');
    } catch {
      // It has just ended.
    }
  };
  const timer = setTimeout(() => {
    late = true;
    end();
  }, withinMs);
  signal.addEventListener('abort', end);
  const how = await new Promise<string | undefined>((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`));
    // Programs that a file left as it failed hold its output open.
    child.once('exit', (code) => code === 0 || end());
    child.once('close', (code, killed) =>
      resolve(killed ? `was ended by ${killed}` : code ? `ended with code ${code}` : undefined),
    );
  });
  clearTimeout(timer);
  signal.removeEventListener('abort', end);
  const counts = readSummary(output);
  const problem = late ? `still ran after ${withinMs / 1000} s and was ended` : (how ?? counts.problem);
  // A file that failed as a whole counts as a failure, even if each test that ran passed.
  const failed = problem ? Math.max(1, counts.failed) : counts.failed;
  return { passed: counts.passed, failed, output, ms: performance.now() - started, ...(problem && { problem }) };
}

/** Reads uvu's summary. A file that ran no test, or skipped one, has failed. */
export function readSummary(output: string): { passed: number; failed: number; problem?: string } {
  const plain = stripVTControlCharacters(output);
  const count = (name: string) => {
    const found = [...plain.matchAll(new RegExp(`^\\s*${name}:\\s+(\\d+)\\s*$`, 'gm'))].at(-1);
    return found ? Number(found[1]) : undefined;
  };
  const [total, passed, skipped] = [count('Total'), count('Passed'), count('Skipped')];
  if (total === undefined || passed === undefined || skipped === undefined) {
    return { passed: 0, failed: 1, problem: 'printed no summary: does it end with test.run()?' };
  }
  if (total === 0) return { passed: 0, failed: 1, problem: 'ran no test: does it end with test.run()?' };
  const failed = total - passed - skipped;
  if (skipped > 0) return { passed, failed: failed + skipped, problem: `skipped ${skipped} of its tests` };
  return { passed, failed, ...(failed > 0 && { problem: `failed ${failed} of its tests` }) };
}
