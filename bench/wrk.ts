import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';
import { ensureProgram } from '../apps/stack/servers/packages.ts';

/** The result of one round of load: calls that were answered, how many a second, and how long a request took. */
export type Round = { calls: number; perSecond: number; p50Us: number; p99Us: number };
export type Load = {
  url: string;
  bodies: string;
  token: string;
  connections: number;
  seconds: number;
  /** So many calls leave as one request. */
  batch?: number;
  /** What else load.lua reads, which says what it does. */
  also?: Partial<Record<'COUNT' | 'DELAY_MS' | 'GATEWAY' | 'CALLED' | 'KEEP_HOLDS' | 'CAPTURES', string>>;
};

type Said = Record<'requests' | 'seconds' | 'failed' | 'p50Us' | 'p99Us' | 'valid', number>;

// As long as a verification may take at most: a late answer of a busy machine is one, and counts in the latencies.
const ANSWER_WITHIN = '10s';

const run = promisify(execFile);
const script = new URL('./load.lua', import.meta.url).pathname;

/** Runs one round of load from one thread; every answer must be a 200. */
export async function load(how: Load): Promise<Round & { valid: number }> {
  const { url, bodies, token, connections, seconds, batch = 1, also } = how;
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', ANSWER_WITHIN, '--latency', '-s', script, url];
  const env = { ...process.env, BODIES: bodies, TOKEN: token, BATCH: String(batch), ...also };
  const { stdout } = await run('wrk', args, { env });
  const { requests, failed, ...found } = JSON.parse(stdout.trim().split('\n').at(-1)!) as Said;
  if (failed > 0) throw new StackError(`${failed} of ${requests} requests to ${url} failed`);
  const { p50Us, p99Us, valid } = found;
  const calls = batch * requests;
  return { calls, perSecond: calls / found.seconds, p50Us, p99Us, valid };
}

/** Installs wrk, which puts load on HTTP servers, if it is missing. */
export async function ensureWrk(say: (line: string) => void): Promise<void> {
  const isNew = (said: string) => said.startsWith('wrk ');
  const missing = 'wrk is not on the PATH';
  await ensureProgram(
    { what: 'wrk', commands: ['wrk'], version: '--version', isNew, packages: ['wrk'], brew: 'wrk', missing },
    say,
  );
}
