import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import type { AttackName } from './attacks/attacks.ts';
import type { Neighbours } from './world.ts';

const READY_WITHIN_MS = 180_000;

/** An attack in a process of its own; `stop` ends it and gives what it was answered, by status. */
export type RunningAttack = { stop(): Promise<Record<string, number>> };

/** Starts an attack, and waits until it has prepared itself. */
export async function startAttack({ target }: Neighbours, name: AttackName): Promise<RunningAttack> {
  const path = new URL('./attacks/main.ts', import.meta.url).pathname;
  const env = { PATH: process.env.PATH, TEST_FOLDER: process.env.TEST_FOLDER };
  const child = spawn(process.execPath, [path, name, JSON.stringify(target)], {
    env,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    detached: true,
  });
  yieldToAll(child.pid!);
  const ended = once(child, 'exit');
  const [told] = (await Promise.race([
    once(child, 'message', { signal: AbortSignal.timeout(READY_WITHIN_MS) }),
    ended.then(() => ['ended']),
  ])) as [string];
  if (told !== 'ready') throw new Error(`the attack ${name} could not be prepared`);
  return {
    async stop() {
      const answers = once(child, 'message') as Promise<[Record<string, number>]>;
      child.send('stop');
      const [byStatus] = await answers;
      child.kill('SIGKILL');
      await ended;
      return byStatus;
    },
  };
}

/** An attacker has a machine of its own: here it takes what the programs leave. */
function yieldToAll(pid: number): void {
  setPriority(pid, constants.priority.PRIORITY_LOW);
  try {
    // Where Linux shares its time among sessions, that priority counts within the attacker's own alone.
    writeFileSync(`/proc/${pid}/autogroup`, String(constants.priority.PRIORITY_LOW));
  } catch {}
  try {
    // Even of the lowest priority it would keep a core that it has for some milliseconds; idle, it gives it up at once.
    execFileSync('chrt', ['--all-tasks', '--idle', '--pid', '0', String(pid)], { stdio: 'ignore' });
  } catch {}
}
