import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { makeNoteLateEvents } from './note-late-events.ts';
import { makeNotifyAlerts } from './notify-alerts.ts';
import { makeNotifyCredits } from './notify-credits.ts';
import { makeNotifyHolds } from './notify-holds.ts';

/** What is done about events that are in the books, one after the other. Each may be done again. */
export type FollowUps = { what: string; work(events: CarriedEvent[]): Promise<void> }[];

type Options = {
  sql: Sql;
  redis: ShardedRedis;
  /** Called when a record may have to be rebuilt. */
  rebuildSoon?: () => void;
  /** Called when the credits of a record have to be looked at. */
  lookSoon?: () => void;
};

/**
 * 1. Note the records whose balances may lack late events. Without the note they would stay too low.
 * 2. Store the alerts that they crossed, and notify webhooks. One that is stored already stays as it is.
 * 3. Notify webhooks of holds that ended by themselves, of each once.
 * 4. Note the records whose credits may be exhausted or replenished: somebody looks at them, and notifies webhooks.
 */
export function makeFollowUps({ sql, redis, rebuildSoon = () => {}, lookSoon = () => {} }: Options): FollowUps {
  return [
    { what: 'noting late events', work: makeNoteLateEvents(sql, redis, rebuildSoon) },
    { what: 'notifying of alerts', work: makeNotifyAlerts(sql, redis.clock) },
    { what: 'notifying webhooks of holds', work: makeNotifyHolds(sql, redis.clock) },
    { what: 'noting credits to look at', work: makeNotifyCredits(sql, redis.clock, lookSoon) },
  ];
}
