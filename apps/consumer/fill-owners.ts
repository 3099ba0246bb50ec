import type { Clock } from '../../shared/runtime/clock.ts';
import { withOwner, type CarriedEvent } from '../../shared/events/carried-event.ts';
import { ENDING_HOLDS } from '../../shared/events/event-kinds.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import { eachOf, type Sql } from '../../shared/stores/postgres.ts';
import { chunks } from '../../shared/values/chunks.ts';

/** Gives events the workspace and the customer that the script that wrote them did not know. */
export type FillOwners = (events: CarriedEvent[]) => Promise<CarriedEvent[]>;

type Owner = { workspaceId: string; customerId: string };

// About 200 bytes each, and up to a kilobyte with the longest customers.
const MAX_REMEMBERED = 50_000;
const IDS_AT_ONCE = 1_000;
const READ_WITHIN_MS = 15_000;

/**
 * An adjustment and a settlement name no workspace, a line that ends or extends a hold no customer. Both are in Postgres, where they
 * can't change: they are remembered, and an event that comes twice gets the same.
 */
export function makeFillOwners(sql: Sql, log: Logger, clock: Clock): FillOwners {
  let known = new Map<string, Owner>();

  return async function fillOwners(events) {
    const lacking = events.filter(lacksOwner);
    if (lacking.length === 0) return events;
    const owners = await ownersOf(lacking.flatMap(({ keyId, billingId }) => [keyId, billingId]));
    const filled = new Map(lacking.map((event) => [event, filledWith(event, owners)]));
    const gone = [...filled.values()].filter(({ workspaceId }) => workspaceId === '').length;
    if (gone > 0) log.error({ events: gone }, 'events have no workspace in the books: their key and record are gone');
    return events.map((event) => filled.get(event) ?? event);
  };

  async function ownersOf(ids: string[]): Promise<Map<string, Owner>> {
    const owners = new Map<string, Owner>();
    const asked: string[] = [];
    for (const id of new Set(ids.filter((one) => one !== ''))) {
      const owner = known.get(id);
      if (owner) owners.set(id, owner);
      else asked.push(id);
    }
    for (const some of chunks(asked, IDS_AT_ONCE)) {
      const rows = await withTimeout(clock, READ_WITHIN_MS, readOwners(sql, some));
      if (known.size > MAX_REMEMBERED) known = new Map();
      for (const { id, ...owner } of rows) {
        owners.set(id, owner);
        known.set(id, owner);
      }
    }
    return owners;
  }
}

function lacksOwner({ workspaceId, customerId, kind }: CarriedEvent): boolean {
  return workspaceId === '' || (customerId === '' && ENDING_HOLDS.has(kind));
}

function filledWith(event: CarriedEvent, owners: Map<string, Owner>): CarriedEvent {
  const ofKey = owners.get(event.keyId);
  const workspaceId = event.workspaceId || (ofKey ?? owners.get(event.billingId))?.workspaceId || '';
  const customerId = event.customerId || ofKey?.customerId || '';
  const same = workspaceId === event.workspaceId && customerId === event.customerId;
  return same ? event : withOwner(event, { workspaceId, customerId });
}

function readOwners(sql: Sql, ids: string[]) {
  return sql<(Owner & { id: string })[]>`
    select id, workspace_id, coalesce(customer_id, '') as customer_id from api_keys where id = any(${eachOf(sql, ids)})
    union all
    select id, workspace_id, '' from billing_records where id = any(${eachOf(sql, ids)})`;
}
