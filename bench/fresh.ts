import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { readMetric, showProgress, usageOf } from './watch.ts';
import { freePorts } from '../apps/stack/process/ports.ts';
import { ourProgram } from '../apps/stack/servers/programs.ts';
import { readProfile, type Share } from './profile.ts';
import { mediansOf, runRounds, type Contender } from './rounds.ts';
import { loadOf } from './contenders.ts';
import type { Stage } from './stage.ts';
import type { World } from './world.ts';
import { load, type Load } from './wrk.ts';

// Measurements that each start a verify process of their own.

type Fresh = { port: number; pid: number; load: Load };
type How = { seconds: number; env?: Record<string, string>; options?: string[] };

const ROUNDS = 3;

/** Resident memory of verify after 200,000 calls and after 2,000,000, in MB. */
export function measureMemory(stage: Stage, world: World): Promise<{ early: number; late: number }> {
  // Up to 130 MB of garbage may wait in the young generation, which would hide what stays.
  const options = ['--max-semi-space-size=16', '--max-old-space-size=64'];
  return withVerify(stage, world, { seconds: 2, options }, async (verify) => {
    const rss = async (calls: number) => {
      for (let done = 0; done < calls;) {
        await load(verify.load);
        await world.clear();
        done = await readMetric(verify.port, 'keytally_verifications_total');
        showProgress('memory', Math.min(done, calls), calls);
      }
      return usageOf(verify.pid)[0]!.rssMb;
    };
    return { early: await rss(200_000), late: await rss(2_000_000) };
  });
}

/** Calls per second of one and of two processes on one port. */
export async function measureWorkers(stage: Stage, world: World, seconds: number) {
  const results: { workers: number; perSecond: number }[] = [];
  for (const workers of [1, 2]) {
    const name = `WORKERS=${workers}`;
    await withVerify(stage, world, { seconds, env: { WORKERS: String(workers) } }, async (verify) => {
      const one: Contender = {
        name,
        pids: { server: verify.pid },
        load: (seconds) => load({ ...verify.load, seconds }),
        settle: world.clear,
      };
      const measured = mediansOf([await runRounds(name, [one], { rounds: ROUNDS, seconds })]);
      results.push({ workers, perSecond: measured.get(name)!.perSecond });
    });
  }
  return results;
}

/** Where verify spends its time under load. */
export async function takeProfile(stage: Stage, world: World): Promise<Share[]> {
  const into = join(stage.folder, 'profile');
  mkdirSync(into);
  const options = ['--cpu-prof', `--cpu-prof-dir=${into}`];
  await withVerify(stage, world, { seconds: 4, options }, async (verify) => {
    await load(verify.load);
    await world.clear();
  });
  return readProfile(into);
}

async function withVerify<T>(stage: Stage, world: World, how: How, use: (verify: Fresh) => Promise<T>): Promise<T> {
  const { seconds, env, options = [] } = how;
  const name = 'verify-fresh';
  const [port = 0] = await freePorts(1);
  const program = ourProgram('verify', name, port, { ...world.env, ...env });
  const pid = await stage.start({ ...program, args: [...options, ...program.args] });
  const result = await use({ port, pid, load: { ...loadOf(world, `http://127.0.0.1:${port}`), seconds } });
  await stage.supervisor.remove(name);
  return result;
}
