import type { Redis } from 'ioredis';
import type { Clock } from '../runtime/clock.ts';

/** A connection that owes an answer and gets nothing for so long is ended. */
export const SILENT_FOR_MS = 2_000;
const LOOKS = 4;

/**
 * Ends connections whose peer has vanished without closing them. Silence is counted in looks, not in time: the time of a process
 * that was stalled itself passes while answers wait to be read. (ioredis has a `socketTimeout`, which goes by time, and sets a
 * timer for each answer.)
 */
export function endSilentConnections(client: Redis, clock: Clock): void {
  let watched = client.stream;
  let read = 0;
  let silent = 0;
  const end = clock.every(SILENT_FOR_MS / LOOKS, () => {
    const { stream, commandQueue } = client;
    const isSilent = stream !== undefined && stream === watched && stream.bytesRead === read && commandQueue.length > 0;
    silent = isSilent ? silent + 1 : 0;
    watched = stream;
    read = stream?.bytesRead ?? 0;
    // The first may have come just after a command was sent.
    if (silent <= LOOKS) return;
    silent = 0;
    stream.destroy(new Error(`redis has not answered for ${SILENT_FOR_MS} ms`));
  });
  client.once('end', end);
}
