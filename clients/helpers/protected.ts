// A program of a page, as it stands: it is started, and must protect its API.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as assert from 'uvu/assert';
import { eventually, type Customers } from '../../tests/helpers/world.ts';

/** A program, and how it is started. */
export type Server = { command: string[]; cwd?: string; env: NodeJS.ProcessEnv };

/** Starts a program for as long as something is done. */
export async function whileServed({ command, cwd, env }: Server, act: () => Promise<void>): Promise<void> {
  const [program = '', ...args] = command;
  const server = spawn(program, args, { cwd, env, stdio: ['ignore', 'ignore', 'inherit'] });
  const ended = once(server, 'exit');
  try {
    await act();
  } finally {
    server.kill('SIGKILL');
    await ended;
  }
}

/** An answer that is decided: on a busy machine a verification may take longer than its second, and is repeated after its 503. */
export function decided(url: string, key: string): Promise<Response> {
  return eventually('it is decided', async () => {
    const answer = await fetch(url, { headers: { Authorization: `Bearer ${key}` } }).catch(() => undefined);
    return answer && answer.status !== 503 ? answer : undefined;
  });
}

/** The example of each page: a wrong key is refused, and a good one greeted, for a quarter of a credit. */
export async function assertProtected(customers: Customers, url: string): Promise<void> {
  const meter = await customers.newMeter({ totalCredits: '10' });
  const { key } = await customers.newKey({ externalMeterId: meter, customerId: 'cus_acme' });
  const refused = await decided(url, 'key_nobody');
  assert.equal([refused.status, refused.headers.get('www-authenticate')], [401, 'Bearer']);
  assert.is(((await refused.json()) as { error: { code: number } }).error.code, 40112);
  const answer = await decided(url, key);
  assert.equal([answer.status, (await answer.text()).trim()], [200, 'Hello cus_acme']);
  assert.ok(Number((await customers.billing(meter)).usedCredits) >= 0.25);
}
