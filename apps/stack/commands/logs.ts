import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { StackError } from '../process/errors.ts';
import { findSupervisor, logFile, type Home } from '../process/home.ts';

/** Shows the logs of all processes, or of one, and follows them while the stack runs. */
export async function logs(home: Home, name?: string): Promise<void> {
  const known = globSync(join(home.folder, 'logs/*.log')).map((file) => basename(file, '.log'));
  if (known.length === 0) throw new StackError(`there are no logs in ${home.folder}: the stack was never started`);
  if (name && !known.includes(name))
    throw new StackError(`there is no log of ${name}; there are: ${known.toSorted().join(', ')}`);
  const files = (name ? [name] : known).map((one) => logFile(home, one));
  // The logs of a stopped stack get no more lines to wait for.
  const follow = findSupervisor(home) ? ['-F'] : [];
  const tail = spawn('tail', ['-n', name ? '200' : '20', ...follow, ...files], { stdio: 'inherit' });
  process.on('SIGINT', () => {});
  await new Promise((resolve, reject) => {
    tail.once('exit', resolve);
    tail.once('error', reject);
  });
}
