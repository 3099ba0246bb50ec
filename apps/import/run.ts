import type { Item, Row } from './rows.ts';
import type { Result } from './send.ts';
import type { Tally } from './tally.ts';

// The endpoint takes 100 keys in 64 KiB.
const MOST_KEYS = 100;
const MOST_BYTES = 60_000;
// A token has five of the api's turns: more would only wait there.
const AT_ONCE = 4;

type Batch = { from: number; rows: Row[]; items: Item[] };
type RunOptions = {
  workspaceId: string | undefined;
  /** How many rows at the start of the file are left out: they were imported by an earlier run. */
  skip: number;
  /** Sends keys; throws the signal's reason where it was stopped before they were answered. */
  send(items: Item[], signal: AbortSignal): Promise<Result[]>;
  tally: Tally;
  signal: AbortSignal;
};

/**
 * Sends the keys of a file in batches, some at once. Gives up to which row all are done. After a failure it begins no further
 * batch, and throws once those under way have ended, with that number as `doneTo`.
 */
export async function run(rows: Iterable<Row>, options: RunOptions): Promise<number> {
  const batches = batchesOf(rows, options);
  const open = new Set<number>();
  let begunTo = options.skip;
  let failure: unknown;

  // Whoever fails ends the batches for all.
  async function work(): Promise<void> {
    for (const { from, rows, items } of batches) {
      open.add(from);
      begunTo = Math.max(begunTo, from + rows.length);
      const results = items.length > 0 ? await options.send(items, options.signal) : [];
      if (results.length !== items.length) throw new Error('keytally answered for another number of keys');
      let at = 0;
      for (const row of rows) options.tally.add(row, 'item' in row ? results[at++] : undefined);
      open.delete(from);
    }
  }

  const workers = Array.from({ length: AT_ONCE }, () =>
    work().catch((error: unknown) => {
      if (error !== options.signal.reason) failure ??= error;
    }),
  );
  await Promise.all(workers);
  const doneTo = Math.min(begunTo, ...open);
  if (failure !== undefined) throw Object.assign(failure as Error, { doneTo });
  return doneTo;
}

function* batchesOf(rows: Iterable<Row>, { workspaceId, skip }: RunOptions): Generator<Batch> {
  let batch: Batch = { from: skip, rows: [], items: [] };
  let [seen, bytes] = [0, 0];
  for (const row of rows) {
    seen += 1;
    if (seen <= skip) continue;
    const item = 'item' in row ? { ...(workspaceId !== undefined && { workspaceId }), ...row.item } : undefined;
    const itemBytes = item ? Buffer.byteLength(JSON.stringify(item)) + 1 : 0;
    if (batch.items.length === MOST_KEYS || batch.rows.length === 10 * MOST_KEYS || bytes + itemBytes > MOST_BYTES) {
      if (batch.rows.length > 0) yield batch;
      [batch, bytes] = [{ from: seen - 1, rows: [], items: [] }, 0];
    }
    bytes += itemBytes;
    // One that fits in no request: with it alone the whole request would be refused.
    const isTooLarge = itemBytes > MOST_BYTES;
    batch.rows.push(isTooLarge ? { place: row.place, lost: row.lost, refused: 'it takes more than 60000 bytes' } : row);
    if (item && !isTooLarge) batch.items.push(item);
  }
  if (batch.rows.length > 0) yield batch;
}
