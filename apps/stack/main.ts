// The stack on one machine: node apps/stack/main.ts up | serve | down | status | logs | monitor | demo | backup | restore | token | …
import '../../shared/runtime/require-node.ts';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { describeFailure, StackError } from './process/errors.ts';
import { checkout, openHome, readEnvFile, type Home } from './process/home.ts';
import { requireRunning } from './restore/folders.ts';
import { notTaken, programEnvironment } from './servers/programs.ts';

const [command = '', ...args] = process.argv.slice(2);

// The reader of the output may stop reading (`make up | head`), which must not stop the start.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

try {
  process.exitCode = await run(openHome(process.env));
} catch (error) {
  const expected = error instanceof StackError || (error as NodeJS.ErrnoException).code !== undefined;
  console.error(`keytally: ${expected ? describeFailure(error) : ((error as Error).stack ?? String(error))}`);
  process.exitCode = 1;
}

async function run(home: Home): Promise<number> {
  switch (command) {
    case 'up':
      warnOfNotTaken();
      await (await import('./commands/up.ts')).up(home);
      return 0;
    case 'serve':
      warnOfNotTaken();
      await (await import('./commands/serve.ts')).serve(home);
      return 0;
    case 'down':
      await (await import('./commands/down.ts')).down(home);
      return 0;
    case 'status':
      return (await (await import('./commands/status.ts')).status(home)) ? 0 : 1;
    case 'logs':
      await (await import('./commands/logs.ts')).logs(home, args[0]);
      return 0;
    case 'monitor':
      await (await import('./commands/monitor.ts')).monitor(home);
      return 0;
    case 'demo':
      return (await (await import('./demo/demo.ts')).demo(home, args[0])) ? 0 : 1;
    case 'backup':
      return (await import('./commands/backup.ts')).backUp(home, args[0] ?? '');
    case 'restore':
      return (await import('./commands/restore.ts')).restore(home, args[0] ?? '');
    case 'token':
    case 'quota':
    case 'revoke-team':
    case 'migrate':
    case 'reconcile':
    case 'audit-log-verify':
    case 'rebuild':
    case 'restored':
      return runOnStack(home, `apps/api/commands/${command}.ts`);
    default:
      throw new StackError(
        `usage: main.ts up | serve | down | status | logs [NAME] | monitor | demo [DAYS] | backup FILE | restore FILE | token --team NAME | revoke-team --team NAME | quota --team NAME [QUOTA=NUMBER …] | migrate | reconcile | audit-log-verify [--since HEAD | --head HEAD] | rebuild | restored`,
      );
  }
}

function warnOfNotTaken(): void {
  const names = notTaken(process.env);
  if (names.length > 0)
    console.error(
      `keytally: the stack of one machine decides these itself, and does not take them from the environment: ${names.join(', ')} (see docs/one-machine.md)`,
    );
}

// These commands run on the servers that the environment names; without any, on those of the stack in this home.
async function runOnStack(home: Home, script: string): Promise<number> {
  let env = process.env;
  if (!env.DATABASE_URL) {
    requireRunning(home);
    const { DATABASE_URL = '', REDIS_URL = '', CLICKHOUSE_URL = '' } = readEnvFile(home);
    env = programEnvironment(home, { DATABASE_URL, REDIS_URL, CLICKHOUSE_URL });
  }
  const child = spawn(process.execPath, [join(checkout, script), ...args], { env, stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => resolve(code ?? 1));
    child.once('error', reject);
  });
}
