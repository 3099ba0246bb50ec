import type postgres from 'postgres';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';
import type { Running } from '../runtime/run.ts';
import type { Sql } from './postgres.ts';

/** A loop whose work Postgres knows of: `isDue` is a condition in SQL that holds while there is some. */
export type DueLoop = Loop & { isDue(sql: Sql): postgres.PendingQuery<postgres.Row[]> };

const LOOK_EVERY_MS = 1_000;
const SLOW_LOOK_MS = 10_000;

/** Runs `work` at once, whenever `wakeWhenDue` finds something due, and every ten seconds besides, until stopped. */
export function startDueLoop(
  { clock, log }: { clock: Clock; log: Logger },
  what: string,
  isDue: DueLoop['isDue'],
  work: Parameters<typeof startLoop>[4],
): DueLoop {
  return { ...startLoop(clock, SLOW_LOOK_MS, log, what, work), isDue };
}

/** Each second asks Postgres, by one statement, which of these loops have something to do, and wakes them; stops them all. */
export function wakeWhenDue(sql: Sql, { clock, log }: { clock: Clock; log: Logger }, loops: DueLoop[]): Running {
  const looking = startLoop(clock, LOOK_EVERY_MS, log, 'looking for what is due', async () => {
    const due = await sql<{ place: number }[]>`${loops.map(
      ({ isDue }, place) =>
        sql`${place > 0 ? sql`union all` : sql``} select ${place}::int as place where ${isDue(sql)}`,
    )}`;
    for (const { place } of due) loops[place]!.soon();
  });
  return {
    async stop() {
      await looking.stop();
      await Promise.all(loops.map((loop) => loop.stop()));
    },
  };
}
