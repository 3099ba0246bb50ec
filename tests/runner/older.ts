import { globSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { runToEnd } from '../../apps/stack/process/errors.ts';

// Its lockfile says which: they can't stand in the main one, where each would take the place of `node` and `tsc`.
const folder = join(import.meta.dirname, '../../clients/node/helpers/older');

/** Installs older versions of Node and TypeScript if they are missing; gives where they are, for the environment of tests. */
export async function ensureOlder(say: (line: string) => void): Promise<Record<string, string>> {
  if (isStale()) {
    say('installing older versions of Node and TypeScript');
    await runToEnd('npm ci failed', 'npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder });
  }
  const nodes = globSync(join(folder, 'node_modules/node-*/bin/node')).toSorted();
  return { TEST_OLDER_NODES: nodes.join(':'), TEST_OLDER_TSC: join(folder, 'node_modules/typescript/bin/tsc') };
}

function isStale(): boolean {
  const changedMs = (name: string) => statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return changedMs('node_modules/.package-lock.json') < changedMs('package-lock.json');
}
