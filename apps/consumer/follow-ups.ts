import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { makeNoteLateEvents } from './note-late-events.ts';
import { makeNoteReturned } from './note-returned.ts';
import { makeTellAlerts } from './tell-alerts.ts';
import { makeTellCredits } from './tell-credits.ts';
import { makeTellHolds } from './tell-holds.ts';

/** What is done about events that are in the books, one after the other. Each may be done again. */
export type FollowUps = { what: string; work(events: CarriedEvent[]): Promise<void> }[];

type Options = {
  sql: Sql;
  redis: ShardedRedis;
  /** Called when a record has to be settled. */
  settleSoon?: () => void;
  /** Called when the credits of a record have to be looked at. */
  lookSoon?: () => void;
};

/**
 * 1. Note the records whose balances lack late events. Without the note they would stay too low.
 * 2. Note what gave credits back to ended grants. Without the note, the copies of what these gave would stay as they are.
 * 3. Store the alerts that they crossed, and tell webhooks. One that is stored already stays as it is.
 * 4. Tell webhooks of holds that ended by themselves. What was told is not told again.
 * 5. Note the records whose credits may be exhausted or replenished: somebody looks at them, and tells webhooks.
 */
export function makeFollowUps({ sql, redis, settleSoon = () => {}, lookSoon = () => {} }: Options): FollowUps {
  return [
    { what: 'noting late events', work: makeNoteLateEvents(sql, redis, settleSoon) },
    { what: 'noting returned credits', work: makeNoteReturned(sql) },
    { what: 'telling alerts', work: makeTellAlerts(sql, redis.clock) },
    { what: 'telling webhooks of holds', work: makeTellHolds(sql, redis.clock) },
    { what: 'noting credits to look at', work: makeTellCredits(sql, redis.clock, lookSoon) },
  ];
}
