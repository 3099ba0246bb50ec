// Entry points import this before anything else: on a Node that is too old it ends the process with one line that says
// so. It is the one module that acts when it is imported, since all that an entry point imports later may need Node 26.
import { existsSync } from 'node:fs';

const OLDEST = 26;

/** What to tell a user whose Node is too old; undefined when it is new enough. */
export function nodeProblem(version: string, hasOwnNode: boolean): string | undefined {
  if (parseInt(version.replace('v', '')) >= OLDEST) return undefined;
  const remedy = hasOwnNode
    ? 'npm run and make use the one in node_modules (npm run api, npm run verify, make up)'
    : `install Node ${OLDEST} or newer`;
  return `keytally needs Node ${OLDEST} or newer, this is ${version}: ${remedy}`;
}

const problem = nodeProblem(process.version, existsSync(new URL('../../node_modules/.bin/node', import.meta.url)));
if (problem) {
  process.stderr.write(`${problem}\n`);
  process.exit(1);
}
