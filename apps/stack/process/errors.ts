import { execFile, type ExecFileOptions } from 'node:child_process';
import { promisify } from 'node:util';

/** A problem that the user can understand and solve: shown as one line, never with a stack trace. */
export class StackError extends Error {}

/** A program that runs, and was not ready in time. */
export class NotReadyError extends StackError {}

/** What went wrong, in one line. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, path } = error as NodeJS.ErrnoException;
  const place = path ? ` (${path})` : '';
  if (code === 'ENOSPC') return `the disk is full${place}: free some space and start again`;
  if (code === 'EDQUOT') return `the disk quota is used up${place}: free some space and start again`;
  if (code === 'EROFS') return `the file system is read-only${place}`;
  if (code === 'EACCES' || code === 'EPERM') return `not allowed${place}: ${error.message}`;
  const line = error.message.split('\n', 1)[0] ?? error.name;
  return /no space left on device/i.test(line) ? `the disk is full: ${line}` : line;
}

/** Runs a program to its end; gives what it printed. Throws `failed`, with the line in which the program says why. */
export async function runToEnd(failed: string, command: string, args: string[], options: ExecFileOptions = {}) {
  try {
    const { stdout } = await promisify(execFile)(command, args, { ...options, encoding: 'utf8' });
    return stdout;
  } catch (error) {
    options.signal?.throwIfAborted();
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    const said = `${stdout}\n${stderr}`.split('\n').filter((line) => line.trim());
    const line = said.find((one) => /error|fatal|could not|no space left/i.test(one)) ?? said.at(-1);
    throw new StackError(`${failed}: ${describeFailure(line ? new Error(line.trim().slice(0, 500)) : error)}`);
  }
}
