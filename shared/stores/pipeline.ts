import type { ChainableCommander } from 'ioredis';
import type { Clock } from '../runtime/clock.ts';
import { withTimeout } from '../runtime/timeout.ts';

/** Runs a pipeline and gives its answers in order. Throws the first error, or a timeout after so many milliseconds. */
export async function runPipeline(clock: Clock, pipeline: ChainableCommander, withinMs: number): Promise<unknown[]> {
  const answers = (await withTimeout(clock, withinMs, pipeline.exec())) ?? [];
  for (const [error] of answers) if (error) throw error;
  return answers.map(([, answer]) => answer);
}
