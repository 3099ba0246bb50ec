import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';
import { StackError } from './errors.ts';

// Below the ports that systems hand out to outgoing connections (from 32768 on Linux): else a client that tries again
// and again while its server is away may be given that very port and take it from the server.
const FIRST = 20_000;
const LAST = 32_000;

/** Finds ports that are free now, each a different one, none of those kept for others, and below a limit. */
export async function freePorts(count: number, kept: number[] = [], below = LAST): Promise<number[]> {
  const found = new Set<number>();
  for (let tries = 0; found.size < count; tries++) {
    if (tries > 1_000) throw new StackError(`found no ${count} free ports from ${FIRST} to ${below} on 127.0.0.1`);
    const port = randomInt(FIRST, below);
    if (!kept.includes(port) && (await isFree(port))) found.add(port);
  }
  return [...found];
}

/** Whether a server could listen on this port of 127.0.0.1 now. */
export async function isFree(port: number): Promise<boolean> {
  return (await whyTaken(port)) === undefined;
}

/** Why no server could listen on this port of 127.0.0.1 now; undefined when one could. */
export async function whyTaken(port: number): Promise<string | undefined> {
  const server = createServer();
  const code = await new Promise<string | undefined>((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => resolve(undefined));
  });
  await new Promise((resolve) => server.close(resolve));
  if (code === 'EADDRINUSE') return 'is in use';
  return code === 'EACCES' ? 'may not be used by this user' : code && `cannot be used (${code})`;
}
