import { once } from 'node:events';
import { StackError } from '../process/errors.ts';
import { findSupervisor, prepareHome, type Home } from '../process/home.ts';
import { finishSwap, refuseRestoring } from '../restore/folders.ts';
import { refuseStaleInstall, spawnDaemon } from './up.ts';

/** Runs the stack in the foreground, for systemd and its like; returns when it was stopped, and throws when it ended by itself. */
export async function serve(home: Home): Promise<void> {
  refuseRestoring(home);
  if (findSupervisor(home)) throw new StackError(`the stack in ${home.folder} runs already: stop it with make down`);
  refuseStaleInstall();
  finishSwap(home);
  prepareHome(home);
  const child = spawnDaemon(home, { stdio: ['ignore', 'inherit', 'inherit'] });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => child.kill('SIGTERM'));
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  if (code !== 0) throw new StackError(`the stack ended with ${signal ?? `code ${code}`}: its last lines say why`);
}
