// One hostile client at a time does its worst beside a good team: node bench/neighbours/main.ts [--seconds N] [--only part]
import '../../shared/runtime/require-node.ts';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { percentile } from '../results.ts';
import { StackError } from '../../apps/stack/process/errors.ts';
import { yieldCores } from '../../apps/stack/process/program.ts';
import { ourProgram } from '../../apps/stack/servers/programs.ts';
import { keyspace, meterShard } from '../../shared/stores/keyspace.ts';
import { VERIFY_PATH } from '../../shared/verification/operation.ts';
import { makeCustomers, must } from '../../tests/helpers/customers.ts';
import { makeOwnRedis } from '../../tests/helpers/own-redis.ts';
import { spawnWorld } from '../../tests/helpers/world.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../../tests/runner/servers.ts';
import { median } from '../rounds.ts';
import { peakOf, resetPeak } from '../watch.ts';
import { attacks, type Target } from './attacks.ts';
import { send } from './send.ts';

/** The good team's p99, and its calls that were not answered with a VALID that was debited. */
type GoodLoad = { p99Ms: number; failed: number };
type Neighbours = Awaited<ReturnType<typeof makeNeighbours>>;

const CALLS_PER_SECOND = 200;
const CALM_WITHIN_MS = 60_000;
/** What is MISSED: a p99 of so many times the calm one, a process that grows by so many MB. */
const MOST_TIMES = 5;
const MOST_GROWN_MB = 100;

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '15' }, only: { type: 'string', default: '' } },
});
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  const seconds = Number(values.seconds);
  const names = Object.keys(attacks);
  const chosen = names.filter((name) => name.includes(values.only));
  if (!(seconds >= 2) || chosen.length === 0)
    throw new StackError(`usage: main.ts [--seconds N, 2 or more] [--only part of: ${names.join(', ')}]`);
  console.log(`${chosen.length} attacks, ${seconds} s each; starting servers`);
  const { servers } = await startTestServers(folder, console.log, { yielding: true });
  Object.assign(process.env, testEnvironment(servers, folder, 1), { TMPDIR: folder });
  const world = await makeNeighbours();
  // The first round warms the programs up.
  await loadGood(world, seconds);
  const calmMs: number[] = [];
  for (const name of chosen) {
    calmMs.push((await calmLoad(world, seconds)).p99Ms);
    const before = Object.entries(world.pids()).map(([program, pid]) => [program, pid, resetPeak(pid)] as const);
    const attack = await startAttack(world.target, name);
    const { p99Ms, failed } = await loadGood(world, seconds);
    const answers = Object.entries(await attack.stop()).map(([status, count]) => `${count} × ${status}`);
    const grown = before.map(([program, pid, mb]) => [program, peakOf(pid) - mb] as const);
    const [most, mb] = grown.toSorted(([, a], [, b]) => b - a)[0]!;
    const times = p99Ms / median(calmMs);
    const isHeld = times < MOST_TIMES && failed === 0 && !(mb >= MOST_GROWN_MB);
    if (!isHeld) process.exitCode = 1;
    console.log(`${isHeld ? 'held  ' : 'MISSED'} ${name}`);
    console.log(
      `       p99 ${p99Ms.toFixed(1)} ms, ${times.toFixed(1)} times the calm ${median(calmMs).toFixed(1)} ms; ${failed} failed`,
    );
    console.log(`       ${most} grew by ${mb.toFixed(0)} MB; the attacker was answered ${answers.join(', ')}`);
  }
  await world.stop();
}

/** The programs as operators run them, on a Redis of their own, a good team with a metered key, and a hostile team. */
async function makeNeighbours() {
  const redis = await makeOwnRedis('neighbours', { maxmemory: '1gb' });
  const world = await spawnWorld(['verify', 'consumer'], {
    REDIS_URL: redis.url,
    TEST_FOLDER: process.env.TEST_FOLDER!,
    // The limits that operators have, not those of tests.
    FAILED_AUTH_PER_MINUTE: '100',
    CALLS_PER_SECOND: '1000',
  });
  const programs = { api: world.api, verify: world.verify!, consumer: world.consumer! };
  // As the supervisor of a stack has it.
  for (const [name, { process }] of Object.entries(programs))
    if (ourProgram(name as keyof typeof programs, name, 0, {}).yields) yieldCores(process.pid!);
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'good' }))).body;
  const { key, meter } = await makeCustomers(world, workspace.id).meteredKey('9000000000');
  const record = keyspace.billing(meterShard(workspace.id, meter), workspace.id, meter);
  const pids = Object.entries(programs).map(([name, { process }]) => [name, process.pid!] as const);
  const target: Target = {
    apiUrl: world.api.url,
    verifyUrl: world.verify!.url,
    token: (await world.newTeam()).token,
  };
  return {
    target,
    call: {
      url: target.verifyUrl + VERIFY_PATH,
      method: 'POST',
      headers: { Authorization: `Bearer ${world.team.token}` },
      body: { key, billing: { usage: '0.000001' } },
    },
    pids: (): Record<string, number> => Object.fromEntries([...pids, ['redis', redis.pid()]]),
    /** The micro-credits that the good team's key has used. */
    used: async () => Number((await redis.admin.hget(record, 'u')) ?? 0),
    async stop() {
      await world.stop();
      await redis.remove();
    },
  };
}

/** Makes the good team's calls, so many a second whether answers come or not, and counts its credits afterwards. */
async function loadGood(world: Neighbours, seconds: number): Promise<GoodLoad> {
  const usedBefore = await world.used();
  const tookMs: number[] = [];
  const calls: Promise<void>[] = [];
  const began = performance.now();
  const call = async (dueMs: number) => {
    const { status } = await send(world.call);
    if (status === 200) tookMs.push(performance.now() - began - dueMs);
  };
  for (let now = 0; now < 1000 * seconds; now = performance.now() - began) {
    while (calls.length < (now / 1000) * CALLS_PER_SECOND) calls.push(call((1000 * calls.length) / CALLS_PER_SECOND));
    await sleep(1);
  }
  await Promise.all(calls);
  const valid = Math.min(tookMs.length, (await world.used()) - usedBefore);
  const sorted = tookMs.toSorted((a, b) => a - b);
  return { p99Ms: percentile(sorted, 0.99), failed: calls.length - valid };
}

/** The good team's load without an attack; what the last attack left behind is waited out first. */
async function calmLoad(world: Neighbours, seconds: number): Promise<GoodLoad> {
  const until = performance.now() + CALM_WITHIN_MS;
  for (;;) {
    const calm = await loadGood(world, Math.max(2, seconds / 2));
    if (calm.failed === 0 || performance.now() > until) return calm;
  }
}

/** Starts an attack in a process of its own, which yields to all others: an attacker has a machine of its own. */
async function startAttack(target: Target, name: string) {
  const path = new URL('./attack.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, [path, name, JSON.stringify(target)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    detached: true,
  });
  const ended = once(child, 'exit');
  try {
    // Where Linux shares its time among sessions, the attacker's own gets little; of the lowest priority it would still keep a core
    // that it has for some milliseconds: idle, it gives it up at once.
    writeFileSync(`/proc/${child.pid}/autogroup`, String(constants.priority.PRIORITY_LOW));
    execFileSync('chrt', ['--all-tasks', '--idle', '--pid', '0', String(child.pid)], { stdio: 'ignore' });
  } catch {}
  const [said] = await Promise.race([once(child, 'message'), ended.then(() => ['ended'])]);
  if (said !== 'ready') throw new StackError(`the attack ${name} could not be prepared`);
  return {
    /** Ends it, and gives what it was answered, by status; 0 is a connection without an answer. */
    async stop() {
      child.send('stop');
      const [answers] = (await once(child, 'message')) as [Record<string, number>];
      child.kill('SIGKILL');
      await ended;
      return answers;
    },
  };
}
