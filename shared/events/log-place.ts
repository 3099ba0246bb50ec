import type { Query } from '../stores/postgres.ts';

/** The entry of a shard's log, its outbox, that an event came in: Unix ms and a number, as Redis names it. */
export type LogPlace = { shard: number; ms: number; number: number };

const HEADER = 'outbox';

/** The place that an entry of a shard's outbox has, by its id. */
export function placeOf(shard: number, entryId: string): LogPlace {
  const [ms, number] = entryId.split('-').map(Number) as [number, number];
  return { shard, ms, number };
}

/** The header of an event's record in Kafka that says where it came from. */
export function placeHeaders(place: LogPlace | undefined): Record<string, string> {
  return place ? { [HEADER]: `${place.shard} ${place.ms}-${place.number}` } : {};
}

/** The place that the headers of a record name, if they do. */
export function readPlace({ [HEADER]: header }: Record<string, unknown>): { place?: LogPlace } {
  const text = Buffer.isBuffer(header) ? header.toString('latin1') : '';
  const [, shard, entryId] = /^(\d{1,2}) (\d{1,15}-\d{1,15})$/.exec(text) ?? [];
  return entryId === undefined ? {} : { place: placeOf(Number(shard), entryId) };
}

/**
 * Raises in Postgres up to where the books may have events of each log, by events that they are about to get. A Redis that comes back
 * with a shorter log has lost what is booked.
 */
export async function raiseBookedTo(sql: Query, events: readonly { place?: LogPlace }[]): Promise<void> {
  const last = new Map<number, LogPlace>();
  for (const { place } of events) {
    const known = place && last.get(place.shard);
    if (place && place !== known && isAfter(place, known)) last.set(place.shard, place);
  }
  if (last.size === 0) return;
  const places = [...last.values()];
  // Always in one order, so that two processes never wait for each other.
  await sql`
    update shards set booked_to = raised.booked_to
    from (
      select s.shard, array[place.ms, place.number] as booked_to
      from unnest(${places.map(({ shard }) => shard)}::smallint[], ${places.map(({ ms }) => ms)}::bigint[],
                  ${places.map(({ number }) => number)}::bigint[]) as place (shard, ms, number)
      join shards s on s.shard = place.shard
      where s.booked_to is null or s.booked_to < array[place.ms, place.number]
      order by s.shard for update of s) as raised
    where shards.shard = raised.shard`;
}

function isAfter(place: LogPlace, known: LogPlace | undefined): boolean {
  return !known || place.ms > known.ms || (place.ms === known.ms && place.number > known.number);
}
