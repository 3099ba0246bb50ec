import { orGiveUp } from '../../shared/postgres.ts';

/**
 * Reads a table in batches, each after the last row of the one before. Not with a cursor: the driver ends one whose
 * connection was lost as if it had read everything, and a shard would be opened with keys missing.
 */
export async function* inBatches<Row, Position>(
  start: Position,
  positionOf: (row: Row) => Position,
  read: (after: Position, limit: number) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  let after = start;
  for (;;) {
    const rows = await orGiveUp(read(after, BATCH));
    if (rows.length > 0) yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) return;
    after = positionOf(last);
  }
}

const BATCH = 1000;
