import type { UsageEvent } from '../../shared/events/event.ts';
import { ENDING_HOLDS } from '../../shared/events/event-kinds.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import { eachOf, type Sql } from '../../shared/stores/postgres.ts';
import { chunks } from '../../shared/values/chunks.ts';

// About 200 bytes each, and up to a kilobyte with the longest customers.
const MAX_REMEMBERED = 50_000;
const IDS_AT_ONCE = 1_000;
const READ_WITHIN_MS = 15_000;

/**
 * Makes what gives events the customer that the script that wrote them did not know. A line that ends or extends a hold names no customer. That of its key can't change: it is remembered, and an event that comes twice
 * gets the same.
 */
export function makeFillCustomers(sql: Sql, clock: Clock) {
  let known = new Map<string, string>();
  return async function fillCustomers(events: UsageEvent[]): Promise<void> {
    const lacking = events.filter(({ customerId, kind }) => customerId === '' && ENDING_HOLDS.has(kind));
    if (known.size > MAX_REMEMBERED) known = new Map();
    const asked = new Set(lacking.map(({ keyId }) => keyId).filter((id) => !known.has(id)));
    for (const ids of chunks([...asked], IDS_AT_ONCE)) {
      const rows = await withTimeout(
        clock,
        READ_WITHIN_MS,
        sql<{ id: string; customerId: string }[]>`
          select id, coalesce(customer_id, '') as customer_id from api_keys where id = any(${eachOf(sql, ids)})`,
      );
      for (const { id, customerId } of rows) known.set(id, customerId);
    }
    for (const event of lacking) event.customerId = known.get(event.keyId) ?? '';
  };
}
