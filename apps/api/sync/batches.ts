import { orGiveUp } from '../../../shared/stores/postgres.ts';

/**
 * Reads a table in batches, each after the last row of the one before. Not with a cursor: the driver ends one whose
 * connection was lost as if it had read everything, and a shard would be opened with keys missing. The next batch is on
 * its way while one is worked on.
 */
export async function* inBatches<Row, Position>(
  start: Position,
  positionOf: (row: Row) => Position,
  read: (after: Position, limit: number) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  let next: Promise<Row[]> | undefined = orGiveUp(read(start, BATCH));
  while (next) {
    const rows: Row[] = await next;
    next = rows.length < BATCH ? undefined : orGiveUp(read(positionOf(rows.at(-1)!), BATCH));
    // Whoever stops reading has no use for how that ends.
    next?.catch(() => {});
    if (rows.length > 0) yield rows;
  }
}

const BATCH = 1000;
