import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';

/** The result of one round of load: calls that were answered, how many a second, and how long a request took. */
export type Round = { calls: number; perSecond: number; p50Us: number; p99Us: number };
export type Load = {
  url: string;
  bodies: string;
  token: string;
  connections: number;
  seconds: number;
  countValid?: boolean;
  /** The address and policy of a gateway, to call verify as a gateway does. */
  gateway?: string;
  /** An address of an API, to call it with the keys as its users do. */
  path?: string;
  /** So many calls leave as one request. */
  batch?: number;
  /** Each call asks for the scopes of its body in an order of its own. */
  newOrders?: boolean;
  /** A file that gets the ids of the holds that are opened; `valid` counts them. */
  keepHolds?: string;
  /** Such a file, to capture its holds in place of the bodies: each once. */
  captures?: string;
};

// As long as a verification may take at most: a late answer of a busy machine is one, and counts in the latencies.
const ANSWER_WITHIN = '10s';

const run = promisify(execFile);
const script = new URL('./load.lua', import.meta.url).pathname;

/** Runs one round of load from one thread; every answer must be a 200. */
export async function load(how: Load): Promise<Round & { valid: number }> {
  const { url, bodies, token, connections, seconds, countValid, gateway, path, batch = 1 } = how;
  const { newOrders, keepHolds, captures } = how;
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', ANSWER_WITHIN, '--latency', '-s', script, url];
  const { stdout } = await run('wrk', args, {
    env: {
      ...process.env,
      BODIES: bodies,
      TOKEN: token,
      BATCH: String(batch),
      ...(countValid && { COUNT: '1' }),
      ...(gateway && { GATEWAY: gateway }),
      ...(path && { CALLED: path }),
      ...(newOrders && { NEW_ORDERS: '1' }),
      ...(keepHolds && { KEEP_HOLDS: keepHolds }),
      ...(captures && { CAPTURES: captures }),
    },
  });
  const found = JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<
    'requests' | 'seconds' | 'failed' | 'p50Us' | 'p99Us' | 'valid',
    number
  >;
  if (found.failed > 0) throw new StackError(`${found.failed} of ${found.requests} requests to ${url} failed`);
  const { p50Us, p99Us, valid } = found;
  const calls = batch * found.requests;
  return { calls, perSecond: calls / found.seconds, p50Us, p99Us, valid };
}
