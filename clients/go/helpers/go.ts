import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
/** The module's folder. */
export const module = join(import.meta.dirname, '..');

/** Runs a go command in the module, and gives what it printed; fails with that. */
export async function runGo(args: string[], env: NodeJS.ProcessEnv = {}, cwd = module): Promise<string> {
  const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 64 * 1024 * 1024 };
  try {
    return (await run(command(), args, options)).stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`go ${args.join(' ')}\n${stdout}${stderr}`, { cause: error });
  }
}

/** The flag for the race detector, which needs cgo. */
export async function raceFlag(): Promise<string[]> {
  const [enabled, compiler = ''] = (await runGo(['env', 'CGO_ENABLED', 'CC'])).split('\n');
  const works = enabled === '1' && (await run(compiler, ['--version']).catch(() => undefined));
  return works ? ['-race'] : [];
}

/** The command gofmt, which stands beside go. */
export async function gofmt(): Promise<string> {
  return join((await runGo(['env', 'GOROOT'])).trim(), 'bin/gofmt');
}

function command(): string {
  const go = process.env.TEST_GO;
  if (!go) throw new Error('TEST_GO is not set: run make test FILE=go.test');
  return go;
}
