const BATCH = 1000;

/**
 * Reads a table in batches, each after the last row of the one before; the next batch is read while the caller works on
 * one. A cursor would not do: when its connection is lost, the driver ends it as if it had read everything, and a shard
 * would open with keys missing.
 */
export async function* inBatches<Row, Position>(
  start: Position,
  positionOf: (row: Row) => Position,
  read: (after: Position, limit: number) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  let next: Promise<Row[]> | undefined = read(start, BATCH);
  while (next) {
    const rows: Row[] = await next;
    next = rows.length < BATCH ? undefined : read(positionOf(rows.at(-1)!), BATCH);
    // It begins here. A caller that stops early never awaits it: its failure must not count as unhandled.
    next?.catch(() => {});
    if (rows.length > 0) yield rows;
  }
}

/** Reads a table in batches, in the order of its ids. */
export function batchesById<Row extends { id: string }>(read: (after: string, limit: number) => Promise<Row[]>) {
  return inBatches<Row, string>('', (row) => row.id, read);
}
