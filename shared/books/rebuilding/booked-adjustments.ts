import { readRows, type Books } from '../../stores/clickhouse.ts';
import type { Query } from '../../stores/postgres.ts';
import { ALL_EPOCHS, readBooked, type BookedRecord } from '../sums/booked.ts';
import type { RecordRef } from '../sums/day-sums.ts';

/**
 * What the books have of some records, by record, up to the adjustment before the first that they lack and Postgres has. Adjustments are
 * applied in the order of their numbers, so those behind it are applied again with it; in the books they are what they were.
 */
export async function readInOrder(
  stores: { sql: Query; books: Books },
  records: RecordRef[],
): Promise<Map<string, BookedRecord>> {
  const found = await readBooked(stores, records);
  // One consumer may have inserted a later one, while Redis lost an earlier one that another had in hand.
  for (const record of records) {
    const { numbers, last } = found.get(record.id)!.adjustments.own;
    if (numbers === last) continue;
    const booked = await readRows<[number: number, day: string]>(stores.books, ADJUSTMENTS, record);
    const numbersBooked = new Set(booked.map(([number]) => number));
    const numbersLacking = Array.from({ length: last }, (_, i) => i + 1).filter((number) => !numbersBooked.has(number));
    const [first] = await stores.sql<{ number: number }[]>`
      select number from adjustments where billing_id = ${record.id} and number = any(${numbersLacking}) order by number limit 1`;
    if (!first) continue;
    const lacking = first.number;
    const counted = { epoch: ALL_EPOCHS, sequences: new Map(), adjustment: lacking - 1, atMs: 0 };
    const daysByEvents = booked.filter(([number]) => number > lacking).map(([, day]) => day);
    for (const [id, one] of await readBooked(stores, [{ ...record, counted, daysByEvents }])) found.set(id, one);
  }
  return found;
}

const ADJUSTMENTS = `
  select number, toString(day) from usage_events final
  where workspace_id = {workspaceId:String} and billing_id = {id:String} and key_id = '' and kind = 'adjustment'`;
