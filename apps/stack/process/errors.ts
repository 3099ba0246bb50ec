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
