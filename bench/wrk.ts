import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { installPackage } from '../apps/stack/servers/packages.ts';
import { StackError } from '../apps/stack/process/errors.ts';

/** The result of one round of load. */
export type Round = { perSecond: number; p50Us: number; p99Us: number; valid: number };
export type Load = {
  url: string;
  bodies: string;
  token: string;
  connections: number;
  seconds: number;
  countValid?: boolean;
  /** The address and policy of a gateway, to call verify as a gateway does. */
  gateway?: string;
};

const run = promisify(execFile);
const script = new URL('./load.lua', import.meta.url).pathname;

/** Installs wrk if it is missing. */
export async function ensureWrk(say: (line: string) => void): Promise<void> {
  const there = await run('wrk', ['--version']).then(
    () => true,
    // It prints its version and exits with 1.
    (error: { code?: unknown }) => error.code === 1,
  );
  if (!there)
    await installPackage({ what: 'wrk', packages: ['wrk'], brew: 'wrk', missing: 'wrk is not on the PATH' }, say);
}

/** Runs one round of load from one thread; every answer must be a 200. */
export async function load({ url, bodies, token, connections, seconds, countValid, gateway }: Load): Promise<Round> {
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-s', script, url];
  const { stdout } = await run('wrk', args, {
    env: {
      ...process.env,
      BODIES: bodies,
      TOKEN: token,
      ...(countValid && { COUNT: '1' }),
      ...(gateway && { GATEWAY: gateway }),
    },
  });
  const found = JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<
    'requests' | 'seconds' | 'failed' | 'p50Us' | 'p99Us' | 'valid',
    number
  >;
  if (found.failed > 0) throw new StackError(`${found.failed} of ${found.requests} calls to ${url} failed`);
  return { perSecond: found.requests / found.seconds, p50Us: found.p50Us, p99Us: found.p99Us, valid: found.valid };
}
