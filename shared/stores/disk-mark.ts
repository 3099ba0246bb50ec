import type { RedisNode } from './redis-node.ts';
import { askPersistence } from './unless-written.ts';

export type DiskMark = ReturnType<typeof makeDiskMark>;

/** A look that found no fsync in progress. All that was written before it is in the file by now, and on the disk after the next fsync. */
type Look = { sentAt: number; answeredAt: number; redisMs: number };

const LOOK_EVERY_MS = 100;
const ANSWER_WITHIN_MS = 1_000;
// With `everysec` Redis starts an fsync within a second of the last, and looks at its clock every 100 ms.
const FSYNC_EVERY_MS = 1_200;

/**
 * Tells what a server has surely brought to its disk. It proves by INFO alone that an fsync was made, since Redis before 7.2 has
 * no WAITAOF. Take a look A that found no fsync in progress, and a look B that was sent 1.2 s later or more. By B's answer Redis
 * has started an fsync after A. So when a look C after B finds no fsync in progress again, what was written before A is on the
 * disk.
 *
 * Without an append-only file there is nothing to wait for.
 */
export function makeDiskMark(node: RedisNode) {
  let ofServer = '';
  let lookedAt = -Infinity;
  let written = '';
  let looks: Look[] = [];
  let proved = { sentAt: -Infinity, redisMs: -Infinity };

  return {
    /** Whether what was written at this Redis time (ms), and was read from the server at this local time, is on its disk. */
    has: (redisMs: number, readAt: number) => redisMs < proved.redisMs || readAt <= proved.sentAt,
    /** How much the server was written when it looked last. */
    written: () => written,
    /** Forgets what it has seen of another server. */
    restart(runId: string): void {
      ofServer = runId;
      lookedAt = -Infinity;
      written = '';
      looks = [];
      proved = { sentAt: -Infinity, redisMs: -Infinity };
    },
    /** Looks at the server, unless it did a moment ago. Fails when it is not the one that `restart` was called for. */
    async look(): Promise<void> {
      if (node.clock.monotonic() - lookedAt < LOOK_EVERY_MS) return;
      await lookOnce();
      // It may be a look B, by which some look A is old enough: C comes at once.
      if (looks.some(({ answeredAt }) => answeredAt + FSYNC_EVERY_MS <= lookedAt)) await lookOnce();
    },
  };

  async function lookOnce(): Promise<void> {
    const sentAt = node.clock.monotonic();
    // The clock is read first: what carries an earlier time was written before INFO looked.
    const { nowMs, persistence, mark } = await askPersistence(node, ANSWER_WITHIN_MS);
    if (node.runId() !== ofServer) throw new Error('another redis server answers');
    written = mark;
    note({ sentAt, answeredAt: node.clock.monotonic(), redisMs: nowMs }, persistence);
  }

  function note(look: Look, persistence: string): void {
    const is = (field: string, value: string) => new RegExp(`^${field}:${value}\\r?$`, 'm').test(persistence);
    const before = lookedAt;
    lookedAt = look.sentAt;
    if (is('aof_enabled', '0')) {
      proved = { sentAt: Infinity, redisMs: Infinity };
    } else if (!is('aof_last_write_status', 'ok')) {
      // What a failed write or fsync held may never reach the disk.
      looks = [];
    } else if (is('aof_pending_bio_fsync', '0')) {
      proved = looks.findLast(({ answeredAt }) => answeredAt + FSYNC_EVERY_MS <= before) ?? proved;
      looks = [...looks.filter(({ sentAt }) => sentAt > proved.sentAt), look];
    }
  }
}
