import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs';
import { open, writeFile } from 'node:fs/promises';

// A program's log is `api.log` and its older parts, `api.log.1` to `api.log.4`, the last the oldest: 80 MB, and one part more
// while it is copied. File systems remove the head of a file by whole blocks, which a part is made of.
export const PART_BYTES = 16 * 1024 * 1024;
const OLDER_PARTS = 4;

/**
 * Opens a log to append to, for a program that starts: nobody writes to it. The program writes there by itself, whether or not we
 * still run. What outgrew all parts then becomes one: a cut may have to copy the rest at once, while the supervisor waits.
 */
export function openLog(file: string): number {
  if (sizeOf(file) > (OLDER_PARTS + 1) * PART_BYTES) addPart(file, file);
  return openSync(file, 'a', 0o600);
}

/**
 * Moves the head of a log that has grown too large to an older part, while a program writes to it. Gives whether it did.
 * 1. Copy the head to the disk. A crash leaves a copy that the next one overwrites.
 * 2. Give the copy its name; the oldest part is gone. A crash repeats lines, and loses none.
 * 3. Remove the head from the log.
 */
export async function shortenLog(file: string): Promise<boolean> {
  if (sizeOf(file) <= PART_BYTES) return false;
  const fresh = `${file}.new`;
  const log = await open(file);
  try {
    const { buffer } = await log.read(Buffer.alloc(PART_BYTES), 0, PART_BYTES, 0);
    await writeFile(fresh, buffer, { mode: 0o600, flush: true });
  } catch (error) {
    // On a full disk it would take what others need.
    rmSync(fresh, { force: true });
    throw error;
  } finally {
    await log.close();
  }
  addPart(file, fresh);
  removeHead(file);
  return true;
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function addPart(file: string, fresh: string): void {
  const part = (number: number) => `${file}.${number}`;
  // Up to a gap: it is that of a part that could not be made, and each try to make it again would end one more.
  let last = 1;
  while (last < OLDER_PARTS && existsSync(part(last))) last += 1;
  for (let number = last; number > 1; number--) renameSync(part(number - 1), part(number));
  renameSync(fresh, part(1));
}

/** Removes the first PART_BYTES and keeps what is being written behind them. */
function removeHead(file: string): void {
  // ext4 and XFS can.
  const head = ['--collapse-range', '--offset', '0', '--length', String(PART_BYTES), file];
  try {
    execFileSync('fallocate', head, { stdio: 'ignore' });
    return;
  } catch {
    // Where only a whole file can be emptied, what is written between the read and that, within microseconds, is lost.
  }
  try {
    appendFileSync(`${file}.1`, readFileSync(file).subarray(PART_BYTES));
    truncateSync(file);
  } catch (error) {
    // All of it is still in the log.
    rmSync(`${file}.1`);
    throw error;
  }
}
