// The test runner: node tests/runner/main.ts [part of a path]… [--tiers 0,1,2] [--jobs N] [--within SECONDS] [--show]
import '../../shared/runtime/require-node.ts';
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { errors } from '../../shared/contract/errors.ts';
import { webhookEventTypes } from '../../shared/contract/webhook-event-types.ts';
import { SEEN_FILE } from '../helpers/contract.ts';
import { describeFailure, StackError } from '../../apps/stack/process/errors.ts';
import { readJson, replaceFile } from '../../apps/stack/process/files.ts';
import { makeWorker, SLOTS_OF_WORKERS, type FileResult } from './test-file.ts';
import { sharesBroker } from './kafka.ts';
import { needs, type Need } from './needs.ts';
import { makeTestFolder, removeTestFolder, slotEnvironment, startTestServers, testEnvironment } from './servers.ts';
import type { Servers } from '../../apps/stack/servers/servers.ts';
import { tierNames, tierOf, type Tier } from './tiers.ts';

const TIMES_FILE = 'node_modules/.keytally-test-times.json';
// A file that was never timed.
const USUAL_MS = 2_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tiers: { type: 'string' },
    jobs: { type: 'string', default: String(Math.min(Math.max(availableParallelism(), 2), 4)) },
    within: { type: 'string', default: '600' },
    show: { type: 'boolean', default: false },
  },
});
const withinMs = Number(values.within) * 1000;
const began = performance.now();
const tiersMs = new Map<Tier, number>();
let passed = 0;
let failed = 0;
let finished = false;
let cutOff = false;
const failures: string[] = [];
const leftOut: string[] = [];

process.chdir(join(import.meta.dirname, '../..'));
const folder = await makeTestFolder();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (cutOff) process.exit(1);
    stopFor(`the run was cut off by ${signal}`);
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
const spent = [...tiersMs].toSorted(([a], [b]) => a - b).map(([tier, ms]) => `${tierNames[tier]} ${seconds(ms)}`);
console.log(`\n${seconds(performance.now() - began)} in all; of the workers: ${spent.join(', ')}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);

async function main(): Promise<void> {
  const most = Number(values.jobs);
  if (!(most >= 1 && most <= SLOTS_OF_WORKERS)) throw new StackError(`--jobs must be 1 to ${SLOTS_OF_WORKERS}`);
  const files = findFiles();
  const times = readJson<Record<string, number>>(TIMES_FILE) ?? {};
  const ready = files.some(({ tier }) => tier > 0) ? startServers() : new Promise<Servers>(() => {});
  // Awaited where it is needed; a failure meanwhile must not end the run without a word.
  ready.catch(() => {});
  const met = new Map(needs.map((need) => [need, meet(need, files.map(({ path }) => path).filter(need.of))]));
  const crosses = (path: string) => Number(path.startsWith('tests/'));
  // Tiers in their order, and in each the files that took longest first: no long one is left to run alone at the end.
  const queue = files
    .map((file, index) => ({ ...file, slot: index + 2 * SLOTS_OF_WORKERS, usualMs: times[file.path] ?? USUAL_MS }))
    .toSorted((a, b) => a.tier - b.tier || b.usualMs - a.usualMs || crosses(b.path) - crosses(a.path));
  const jobs = Math.min(most, queue.length);

  async function work(index: number): Promise<void> {
    const worker = makeWorker({ ...process.env, TEST_WORKER: String(index), LOG_LEVEL: 'error' });
    for (let next = take(index); next && !cutOff; next = take(index)) {
      const { path, tier, slot } = next;
      const more = await Promise.all(needs.filter((need) => need.of(path)).map((need) => met.get(need)!));
      if (more.includes(undefined)) continue;
      const found = tier > 0 ? testEnvironment(await ready, folder, slot) : slotEnvironment(folder, slot);
      const env = { ...found, ...Object.assign({}, ...more) };
      const result = await worker.run({ file: path, env }, withinMs);
      if (cutOff) break;
      times[path] = result.ms;
      tiersMs.set(tier, (tiersMs.get(tier) ?? 0) + result.ms);
      report(path, result);
      // These kill what they started and are killed; they leave nothing to the next one.
      if (tier > 2) await worker.stop();
    }
    await worker.stop();
  }
  // Files that share the broker also kill it, and one Docker engine runs at a time: one worker runs them all.
  function take(index: number) {
    const shares = (path: string) => sharesBroker(path) || path.endsWith('.engine.test.ts');
    const at = queue.findIndex(({ path }) => index === 0 || !shares(path));
    return at < 0 ? undefined : queue.splice(at, 1)[0];
  }

  await Promise.all(Array.from({ length: jobs }, (_, index) => work(index)));
  replaceFile(TIMES_FILE, JSON.stringify(times));
  const whole = positionals.length === 0 && [0, 1, 2].every((tier) => files.some((file) => file.tier === tier));
  if (whole && !cutOff) checkCatalogue();
}

async function startServers(): Promise<Servers> {
  const { servers, onLoss } = await startTestServers(folder, console.log);
  onLoss((line) => finished || stopFor(line));
  console.log(`      servers ready after ${seconds(performance.now() - began)}`);
  return servers;
}

function report(file: string, result: FileResult): void {
  passed += result.passed;
  failed += result.failed;
  const counts = `${result.passed + result.failed} tests`.padStart(10);
  console.log(`${result.problem ? 'FAIL' : 'ok  '}  ${file.padEnd(58)} ${counts}  ${seconds(result.ms)}`);
  if (result.problem || values.show) console.log(`\n${result.output.trimEnd()}\n`);
  if (result.problem) failures.push(`${file}: ${result.problem}`);
}

/** Starts what some files need. Where it can't be had, the files are left out and the run says so. */
async function meet({ what, start }: Need, files: string[]): Promise<Record<string, string> | undefined> {
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

// Nobody knows whether an error or an event can happen, or what it then says, unless some test has seen it.
function checkCatalogue(): void {
  const files = globSync(join(folder, 'slot-*', SEEN_FILE));
  const seen = new Set(files.flatMap((file) => readFileSync(file, 'utf8').trim().split('\n')));
  const unseen = Object.values(errors).filter(([code]) => !seen.has(String(code)));
  for (const [code, message] of unseen) fail(`no test saw the error ${code} (${message})`);
  for (const type of webhookEventTypes) if (!seen.has(type)) fail(`no test saw the event ${type}`);
}

function findFiles(): { path: string; tier: Tier }[] {
  // A file that is named runs whatever its tier.
  const wanted = values.tiers?.split(',').map(Number) ?? (positionals.length > 0 ? [0, 1, 2, 3, 4] : [0, 1, 2]);
  const files = globSync(['{apps,bench,clients,shared,tests}/**/*.test.ts'], { exclude: ['**/node_modules'] })
    .toSorted()
    .filter((path) => positionals.length === 0 || positionals.some((part) => path.includes(part)))
    .map((path) => ({ path, tier: tierOf(path) }))
    .filter(({ tier }) => wanted.includes(tier));
  if (files.length === 0) throw new StackError(`there is no such test file: ${positionals.join(' ')}`);
  return files;
}

function stopFor(line: string): void {
  cutOff = true;
  fail(line);
}

function fail(line: string): void {
  if (failures.includes(line)) return;
  failures.push(line);
  failed += 1;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
