// The test runner: node tests/runner/main.ts [part of a path]… [--long] [--jobs N] [--within SECONDS] [--show]
import '../../shared/runtime/require-node.ts';
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { errors } from '../../shared/contract/errors.ts';
import { SEEN_CODES_FILE } from '../helpers/contract.ts';
import { dayWithRoom } from '../helpers/day-with-room.ts';
import { describeFailure, StackError } from '../../apps/stack/process/errors.ts';
import { readJson, replaceFile } from '../../apps/stack/process/files.ts';
import { runTestFile, type FileResult } from './test-file.ts';
import { sharesBroker } from './kafka.ts';
import { needs, type Need } from './needs.ts';
import { makeTestFolder, removeTestFolder, startTestServers, testEnvironment } from './servers.ts';

const TIMES_FILE = 'node_modules/.keytally-test-times.json';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    // Each file has a world of half a dozen processes: of more files than cores, deadlines pass while answers wait to be read.
    jobs: { type: 'string', default: String(Math.min(Math.max(availableParallelism(), 2), 4)) },
    within: { type: 'string', default: '600' },
    show: { type: 'boolean', default: false },
    // What is long, and no other file: a file with a long form runs in it.
    long: { type: 'boolean', default: false },
  },
});
const withinMs = Number(values.within) * 1000;
const began = performance.now();
const abort = new AbortController();
let passed = 0;
let failed = 0;
let finished = false;
const failures: string[] = [];
const leftOut: string[] = [];

const folder = await makeTestFolder();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (abort.signal.aborted) process.exit(1);
    abort.abort(new StackError(`the run was cut off by ${signal}`));
  });
}

try {
  await main();
} catch (error) {
  fail(error instanceof StackError ? error.message : ((error as Error).stack ?? describeFailure(error)));
} finally {
  finished = true;
  await removeTestFolder(folder);
}
for (const line of leftOut) console.error(`****  ${line}`);
for (const line of failures) console.error(`FAILED  ${line}`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);

async function main(): Promise<void> {
  process.chdir(join(import.meta.dirname, '../..'));
  // A long file that is named runs without --long, too.
  const named = positionals.length > 0;
  const files = findFiles(positionals).filter((file) =>
    values.long ? isLong(file) || hasLongForm(file) : named || !isLong(file),
  );
  const times = readJson<Record<string, number>>(TIMES_FILE) ?? {};
  const { servers, onLoss } = await startTestServers(folder, console.log);
  onLoss((line) => {
    if (finished) return;
    fail(line);
    abort.abort(new StackError(line));
  });
  console.log(`servers ready after ${seconds(performance.now() - began)}; ${files.length} test files\n`);

  const slots = new Map(files.map((file, index) => [file, index + 1]));
  const met = new Map(needs.map((need) => [need, startNeed(need, files.filter(need.of))]));
  const work = async (queue: string[]) => {
    for (let file = queue.shift(); file && !abort.signal.aborted; file = queue.shift()) {
      const more = await Promise.all(needs.filter((need) => need.of(file)).map((need) => met.get(need)!));
      if (more.includes(undefined)) continue;
      // Many files ask for what was used today. One that is not long is done within the room that this leaves by default.
      await dayWithRoom('UTC', values.long || isLong(file) ? withinMs : undefined);
      if (abort.signal.aborted) return;
      const env = { ...testEnvironment(servers, folder, slots.get(file)!), ...Object.assign({}, ...more) };
      if (values.long) env.TEST_LONG = '1';
      const result = await runTestFile(file, { env, withinMs, signal: abort.signal });
      if (abort.signal.aborted) return;
      // A long form takes longer than the form that `make test` runs.
      if (!values.long || isLong(file)) times[file] = result.ms;
      report(file, result);
    }
  };
  // The files that took longest come first, and new ones before them: no long one is left to run alone at the end. Of new ones, those
  // that cross programs take longest.
  const crosses = (file: string) => Number(file.startsWith('tests/'));
  const sorted = files.toSorted(
    (a, b) => (times[b] ?? Infinity) - (times[a] ?? Infinity) || crosses(b) - crosses(a) || a.localeCompare(b),
  );
  const [alone, queue] = [sorted.filter(sharesBroker), sorted.filter((file) => !sharesBroker(file))];
  // Files that share the broker also kill it: one worker runs them all, so that two never run at a time.
  const workers = Array.from({ length: Math.max(1, Number(values.jobs)) }, async (_, index) => {
    if (index === 0) await work(alone);
    await work(queue);
  });
  await Promise.all(workers);
  replaceFile(TIMES_FILE, JSON.stringify(times));
  abort.signal.throwIfAborted();
  if (!named && !values.long) checkCatalogue();
}

/** Counts and prints the result of a file. */
function report(file: string, result: FileResult): void {
  passed += result.passed;
  failed += result.failed;
  const counts = `${result.passed + result.failed} tests`.padStart(10);
  console.log(`${result.problem ? 'FAIL' : 'ok  '}  ${file.padEnd(50)} ${counts}  ${seconds(result.ms)}`);
  if (result.problem || values.show) console.log(`\n${result.output.trimEnd()}\n`);
  if (!result.problem) return;
  failures.push(`${file}: ${result.problem}`);
  console.log(`      ${file} ${result.problem}\n`);
}

/** Starts what some files need. Where it can't be had, the files are left out and the run says so. */
async function startNeed({ what, start }: Need, files: string[]): Promise<Record<string, string> | undefined> {
  if (files.length === 0) return undefined;
  try {
    return await start(folder, console.log);
  } catch (error) {
    if (!(error instanceof StackError)) throw error;
    const line = `NOT TESTED, for want of ${what} (${error.message}): ${files.join(' ')}`;
    leftOut.push(line);
    if (process.env.CI === 'true') fail(line);
    return undefined;
  }
}

// Nobody knows whether an error can happen, or what it then says, unless some test has seen it.
function checkCatalogue(): void {
  const files = globSync(join(folder, 'slot-*', SEEN_CODES_FILE));
  const seen = new Set(files.flatMap((file) => readFileSync(file, 'utf8').trim().split('\n').map(Number)));
  const unseen = Object.values(errors).filter(([code]) => !seen.has(code));
  for (const [code, message] of unseen) fail(`no test saw the error ${code} (${message})`);
}

function findFiles(wanted: string[]): string[] {
  const all = globSync(['{apps,bench,clients,shared,tests}/**/*.test.ts'], { exclude: ['**/node_modules'] }).toSorted();
  const files = wanted.length === 0 ? all : all.filter((file) => wanted.some((part) => file.includes(part)));
  if (files.length === 0)
    throw new StackError(`there is no test file${wanted.length > 0 ? ` like ${wanted.join(' ')}` : ''}`);
  return files;
}

function isLong(file: string): boolean {
  return file.includes('.long.');
}

function hasLongForm(file: string): boolean {
  return readFileSync(file, 'utf8').includes('/long-form.ts');
}

function fail(line: string): void {
  if (failures.includes(line)) return;
  failures.push(line);
  failed += 1;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
