import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../../tests/helpers/eventually.ts';
import { readJson } from './json-file.ts';
import { freePorts } from './ports.ts';
import { identify, isAlive } from './processes.ts';
import { answersOk, type Program } from './program.ts';
import { makeSupervisor } from './supervisor.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'supervisor');
const said: string[] = [];
const supervisor = makeSupervisor({ folder, logFile, say: (line) => said.push(line) });

test.before(() => void mkdirSync(folder, { recursive: true }));
test.after(() => supervisor.stop([]));

test('a program that ends runs again within 2 seconds, and processes.json shows it', async () => {
  await supervisor.add(await serving('steady'));
  const first = processes().steady;
  assert.ok(first && identify(first.pid));
  const unlistedMs: number[] = [];
  const tookMs: number[] = [];
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const) {
    const before = processes().steady;
    assert.ok(before);
    process.kill(before.pid, signal);
    const killedAt = performance.now();
    await eventually('it is gone', async () => !isThere(before.pid));
    const goneAt = performance.now();
    await eventually('and not listed for long', async () => processes().steady?.pid !== before.pid);
    unlistedMs.push(performance.now() - goneAt);
    const { pid, port } = await eventually('it is started again', async () => processes().steady);
    assert.is.not(pid, before.pid);
    assert.is(port, before.port);
    await eventually('it answers', () => answersOk(`http://127.0.0.1:${port}`));
    // A busy machine takes longer to start one, also without a supervisor.
    tookMs.push(performance.now() - killedAt - 2 * (await plainStartMs()));
  }
  // And longer now and then.
  assert.ok(Math.min(...unlistedMs) < 200, `${unlistedMs.join()} ms`);
  assert.ok(Math.min(...tookMs) < 2_000, `${tookMs.join()} ms\n${said.join('\n')}`);
});

test('the error about a program that ends before it is ready quotes its last output', async () => {
  const broken = await serving('broken', "console.error('Error: the disk is on fire'); process.exit(3)");
  try {
    await supervisor.add(broken);
    assert.unreachable();
  } catch (error) {
    assert.match((error as Error).message, /^broken ended with code 3: Error: the disk is on fire \(.*broken\.log\)$/);
  }
});

test('a removed program stays down, and processes.json no longer lists it', async () => {
  await supervisor.add(await serving('removed'));
  const id = identify(processes().removed?.pid ?? 0);
  await supervisor.remove('removed');
  await sleep(300);
  assert.not.ok(id && isAlive(id));
  assert.is(processes().removed, undefined);
});

test('programs stop in the order asked for and stay down, and one that does not stop is killed', async () => {
  const otherFolder = join(folder, 'other');
  mkdirSync(otherFolder);
  const other = makeSupervisor({ folder: otherFolder, logFile, say: (line) => said.push(line) });
  const stubborn = await serving('stubborn', "process.on('SIGTERM', () => {})");
  await Promise.all(
    [await serving('last'), { ...stubborn, stopWithinMs: 300 }, await serving('first')].map((program) =>
      other.add(program),
    ),
  );
  const pids = Object.values(processes(otherFolder)).map(({ pid }) => pid);
  assert.is(pids.length, 3);
  const ids = pids.map(identify);
  said.length = 0;
  await other.stop(['first', 'stubborn']);
  assert.equal(said, ['first stopped', 'stubborn did not stop in time and was ended', 'last stopped']);
  assert.equal(processes(otherFolder), {});
  await sleep(300);
  assert.not.ok(ids.some((id) => id && isAlive(id)));
  assert.equal(processes(otherFolder), {});
});

test.run();

async function serving(name: string, first = ''): Promise<Program> {
  const [port = 0] = await freePorts(1);
  const code = `${first}; require('node:http').createServer((q, r) => r.end()).listen(${port}, '127.0.0.1')`;
  return {
    name,
    port,
    command: process.execPath,
    args: ['-e', code],
    env: {},
    isReady: () => answersOk(`http://127.0.0.1:${port}`),
    stopSignal: 'SIGTERM',
    stopWithinMs: 30_000,
  };
}

/** How long such a program takes to start and answer by itself. */
async function plainStartMs(): Promise<number> {
  const { command, args, port } = await serving('plain');
  const began = performance.now();
  const started = spawn(command, args, { stdio: 'ignore' });
  await eventually('it answers', () => answersOk(`http://127.0.0.1:${port}`));
  const tookMs = performance.now() - began;
  started.kill('SIGKILL');
  return tookMs;
}

function logFile(name: string): string {
  return join(folder, `${name}.log`);
}

function processes(of = folder): Record<string, { pid: number; port: number }> {
  const file = join(of, 'processes.json');
  assert.not.throws(() => JSON.parse(readFileSync(file, 'utf8')), 'the file is complete at any time');
  return readJson(file) ?? {};
}

function isThere(pid: number): boolean {
  return identify(pid) !== undefined;
}
