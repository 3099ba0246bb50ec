// The stack on one machine: node apps/stack/main.ts up | serve | down | status | logs | monitor | demo | backup | restore | token | …
import '../../shared/runtime/require-node.ts';
import { describeFailure, StackError } from './process/errors.ts';
import { openHome, type Home } from './process/home.ts';
import { refuseRestoring, requireRunning } from './restore/folders.ts';
import { notTaken, runOnStack } from './servers/programs.ts';

/** Gives the exit code, which is 0 for nothing. */
type Command = (home: Home, argument: string) => Promise<number | void>;

// Loaded by need: most of them need little.
const commands: Record<string, () => Promise<Command>> = {
  up: async () => warned((await import('./commands/up.ts')).up),
  serve: async () => warned((await import('./commands/serve.ts')).serve),
  down: async () => (await import('./commands/down.ts')).down,
  status: async () => (await import('./commands/status.ts')).status,
  logs: async () => (await import('./commands/logs.ts')).logs,
  monitor: async () => (await import('./commands/monitor.ts')).monitor,
  demo: async () => (await import('./demo/demo.ts')).demo,
  backup: async () => (await import('./commands/backup.ts')).backUp,
  restore: async () => (await import('./commands/restore.ts')).restore,
};
// Of the api. They run on the servers that the environment names; without any, on those of the stack in this home.
const tools = ['token', 'quota', 'revoke-team', 'migrate', 'reconcile', 'audit-log-verify', 'rebuild', 'restored'];

const [name = '', ...args] = process.argv.slice(2);

// The reader of the output may stop reading (`make up | head`), which must not stop the start.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

try {
  process.exitCode = (await run(openHome(process.env))) ?? 0;
} catch (error) {
  const expected = error instanceof StackError || (error as NodeJS.ErrnoException).code !== undefined;
  console.error(`keytally: ${expected ? describeFailure(error) : ((error as Error).stack ?? String(error))}`);
  process.exitCode = 1;
}

async function run(home: Home): Promise<number | void> {
  const load = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!load && !tools.includes(name))
    throw new StackError(`usage: main.ts ${[...Object.keys(commands), ...tools].join(' | ')}: see docs/deploy.md`);
  if (!load && process.env.DATABASE_URL) return runOnStack(home, name, args, process.env);
  if (name !== 'logs') refuseRestoring(home);
  if (load) return (await load())(home, args[0] ?? '');
  requireRunning(home);
  return runOnStack(home, name, args);
}

function warned(command: Command): Command {
  const names = notTaken(process.env);
  if (names.length > 0)
    console.error(
      `keytally: the stack of one machine decides these itself, and does not take them from the environment: ${names.join(', ')} (see docs/one-machine.md)`,
    );
  return command;
}
