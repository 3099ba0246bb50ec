import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Plan, Result } from './run.ts';

/** Runs plans, one after the other, on databases of its own. */
export type Worker = { run(plan: Plan): Promise<Result>; stop(): Promise<void> };

/** A process of its own: what the product draws from the system follows from the seed there. `env` is that of a test file. */
export function makeWorker(env: NodeJS.ProcessEnv): Worker {
  const child = fork(new URL('worker.ts', import.meta.url), {
    env,
    // Most of what a seed makes is dead soon: a larger nursery spares its collection.
    execArgv: ['--import', new URL('few-shards.ts', import.meta.url).href, '--max-semi-space-size=64'],
  });
  return {
    run: (plan) =>
      new Promise((resolve, reject) => {
        const ended = () => reject(new Error(`the worker ended at seed ${plan.seed}`));
        child.once('exit', ended);
        child.once('message', (result: Result) => {
          child.off('exit', ended);
          resolve(result);
        });
        child.send(plan);
      }),
    // Until it has removed what it made: the books lie in memory.
    async stop() {
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}
