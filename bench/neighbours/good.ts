import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { VERIFY_PATH } from '../../shared/verification/operation.ts';
import type { Neighbours } from './world.ts';

/**
 * The good team's calls: how slow they were, for how long verify and Redis worked between a call and its answer (NaN where the
 * system does not tell), and how many were not answered with a VALID that was debited.
 */
export type GoodLoad = { calls: number; failed: number; p99Ms: number; workedP99Ms: number };

type Told = {
  unanswered: number;
  byStatus: { status: number; count: number; p99Ms: number; workedP99Ms?: number }[];
};

const PER_SECOND = 200;
const CONNECTIONS = 64;

/** Makes the good team's calls, so many a second whether answers come or not, and counts its credits afterwards. */
export async function loadGood(world: Neighbours, seconds: number): Promise<GoodLoad> {
  const { verifyUrl, good } = world;
  const usedBefore = await world.usedByGood();
  const settings = {
    URL: verifyUrl + VERIFY_PATH,
    TOKEN: good.token,
    BODY: JSON.stringify({ key: good.key, billing: { usage: '0.000001' } }),
    PER_SECOND,
    SECONDS: seconds,
    CONNECTIONS,
    ...(existsSync('/proc/self/schedstat') && { PIDS: `${world.pids().verify},${world.pids().redis}` }),
  };
  const script = new URL('../../bench/open-loop.ts', import.meta.url).pathname;
  const env = { ...process.env, ...settings } as unknown as NodeJS.ProcessEnv;
  const { stdout } = await promisify(execFile)(process.execPath, [script], { env });
  const { unanswered, byStatus } = JSON.parse(stdout) as Told;
  const ok = byStatus.find(({ status }) => status === 200);
  const valid = (await world.usedByGood()) - usedBefore;
  const calls = unanswered + byStatus.reduce((all, { count }) => all + count, 0);
  return {
    calls,
    failed: calls - Math.min(valid, ok?.count ?? 0),
    p99Ms: ok?.p99Ms ?? NaN,
    workedP99Ms: ok?.workedP99Ms ?? NaN,
  };
}
