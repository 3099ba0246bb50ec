import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { VERIFY_PATH } from '../shared/verification/operation.ts';
import { showProgress } from './watch.ts';
import { bodyOf, type World } from './world.ts';

export type Phase = {
  name: string;
  offered: number;
  served: number;
  p99Ms: number;
  refused: number;
  refusedP99Ms: number;
  unanswered: number;
};
type Told = { unanswered: number; byStatus: { status: number; perSecond: number; p99Ms: number }[] };

const SECONDS = 4;
// Twice as many as verify decides at a time.
const CONNECTIONS = 8_000;
// Shares of its best rate with few connections: so many connections are more work for the kernel in any case.
const phases = [
  ['0.4 of its best', 0.4],
  ['0.6', 0.6],
  ['0.8', 0.8],
  ['as much as its best', 1],
  ['a fifth more than it', 1.2],
  ['0.4 again', 0.4],
] as const;

/** Offers verify more and more load, past its best rate, then less again, without waiting for answers. */
export async function overloaded(world: World, best: number): Promise<Phase[]> {
  const results: Phase[] = [];
  for (const [name, share] of phases) {
    const offered = best * share;
    const settings = { PER_SECOND: offered, SECONDS, CONNECTIONS, TOKEN: world.token, BODY: bodyOf(world.keys[0]!) };
    const env = { ...process.env, URL: world.url + VERIFY_PATH, ...settings } as unknown as NodeJS.ProcessEnv;
    const script = new URL('./open-loop.ts', import.meta.url).pathname;
    const { stdout } = await promisify(execFile)(process.execPath, [script], { env });
    const { unanswered, byStatus } = JSON.parse(stdout) as Told;
    const of = (status: number) => byStatus.find((one) => one.status === status) ?? { perSecond: 0, p99Ms: NaN };
    const [ok, refused] = [of(200), of(503)];
    results.push({
      name,
      offered,
      served: ok.perSecond,
      p99Ms: ok.p99Ms,
      refused: refused.perSecond,
      refusedP99Ms: refused.p99Ms,
      unanswered,
    });
    await world.clear();
    showProgress('overload', results.length, phases.length);
  }
  return results;
}
