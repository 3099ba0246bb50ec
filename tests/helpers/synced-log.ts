import { globSync, readFileSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';

const LOOK_EVERY_MS = 4;

export type SyncedLog = ReturnType<typeof watchSyncedLog>;

/**
 * Follows how much of a Redis server's append-only file has reached the disk, so that a test can take away the rest as a
 * power cut does. Redis syncs the file in a thread of its own, which sleeps in between: when its count of sleeps (Linux,
 * /proc) has changed, what was in the file two looks before is on the disk.
 */
export function watchSyncedLog(pid: number, folder: string) {
  const log = globSync(join(folder, 'appendonlydir/*.incr.aof')).toSorted().at(-1)!;
  const status = globSync(`/proc/${pid}/task/*/comm`)
    .filter((file) => readFileSync(file, 'utf8').startsWith('bio_aof'))
    .map((file) => file.replace(/comm$/, 'status'))[0]!;
  let sizes = [0, 0];
  let syncs = 0;
  let sleeps = '';
  let syncedBytes = 0;

  const looking = setInterval(() => {
    const now = /^voluntary_ctxt_switches:\s*(\d+)/m.exec(readFileSync(status, 'utf8'))?.[1] ?? '';
    if (now !== sleeps && sleeps !== '') {
      syncs += 1;
      syncedBytes = sizes[0]!;
    }
    sleeps = now;
    sizes = [sizes[1]!, statSync(log).size];
  }, LOOK_EVERY_MS);

  return {
    /** How many syncs were seen so far. */
    syncs: () => syncs,
    stop: () => clearInterval(looking),
    /** Removes from the file what was not synced; returns how many bytes that were. The server must have ended. */
    cut(): number {
      const lost = statSync(log).size - syncedBytes;
      truncateSync(log, syncedBytes);
      return lost;
    },
  };
}
