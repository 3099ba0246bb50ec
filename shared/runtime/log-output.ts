import { write, writeSync } from 'node:fs';

// While a disk is full or a pipe isn't read, lines wait up to this limit; those beyond it are lost.
const WAITING_CHARACTERS = 8 * 1024 * 1024;
const AGAIN_MS = 100;
// Where not even so much is written in so long, nobody reads.
const AT_ONCE_BYTES = 65_536;
const STUCK_MS = 1_000;

/**
 * Writes lines to a file or pipe, in their order, without making the caller wait. No failure ends or holds up the process: it is tried
 * again until there is space. (pino's own output throws where nobody catches, and at the end of the process tries for ever.)
 */
export function makeLogOutput(fd: number) {
  let waiting = '';
  let piece: Buffer = Buffer.alloc(0);
  /** How many bytes of the piece the system is writing, and since when. */
  let underWay = 0;
  let begunAt = 0;
  let retry: NodeJS.Timeout | undefined;

  return {
    write(line: string): void {
      if (waiting.length + line.length > WAITING_CHARACTERS) return;
      waiting += line;
      if (underWay === 0 && !retry) next();
    },
    /** Writes what waits before the process ends, as far as that is possible now. */
    flushSync(): void {
      // Writing would hold up this thread too, and exit() waits for the one that writes.
      if (underWay > 0 && performance.now() - begunAt > STUCK_MS) process.kill(process.pid, 'SIGKILL');
      const rest = Buffer.concat([piece.subarray(underWay), Buffer.from(waiting)]);
      try {
        for (let at = 0; at < rest.length;) at += writeSync(fd, rest, at);
      } catch {
        // The process ends, or the next line tries again: part of this may then be there twice.
        return;
      }
      piece = piece.subarray(0, underWay);
      waiting = '';
    },
  };

  function next(): void {
    retry = undefined;
    if (piece.length === 0) {
      piece = Buffer.from(waiting);
      waiting = '';
    }
    if (piece.length === 0) return;
    // Whole lines: the end of the process may write the rest before them.
    underWay = piece.lastIndexOf('\n', AT_ONCE_BYTES) + 1 || piece.length;
    begunAt = performance.now();
    write(fd, piece, 0, underWay, (error, bytes) => {
      underWay = 0;
      if (error) retry = setTimeout(next, AGAIN_MS).unref();
      else {
        piece = piece.subarray(bytes);
        next();
      }
    });
  }
}
