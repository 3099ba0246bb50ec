import { StackError } from './errors.ts';

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Does work that a signal cuts off; then throws that `undone`, such as "nothing was restored". Nothing else would stop the servers that
 * it starts, which survive this process, nor remove what it wrote.
 */
export async function untilStopped<Result>(
  undone: string,
  work: (cutOff: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const stopped = new AbortController();
  const stop = (signal: NodeJS.Signals) => stopped.abort(new StackError(`stopped by ${signal}: ${undone}`));
  for (const signal of signals) process.on(signal, stop);
  try {
    return await work(stopped.signal);
  } catch (error) {
    stopped.signal.throwIfAborted();
    throw error;
  } finally {
    for (const signal of signals) process.off(signal, stop);
  }
}
