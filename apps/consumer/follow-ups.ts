import type { UsageEvent } from '../../shared/events/event.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { makeNoteLateEvents } from './note-late-events.ts';
import { notifyAlerts } from './notify-alerts.ts';
import { notifyCredits } from './notify-credits.ts';
import { notifyHolds } from './notify-holds.ts';

/** What is done about events that are in the books, one after the other. Each may be done again. */
export type FollowUps = { what: string; work(events: UsageEvent[]): Promise<void> }[];

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
  const { clock } = redis;
  return [
    { what: 'noting late events', work: makeNoteLateEvents(sql, redis, rebuildSoon) },
    { what: 'notifying of alerts', work: (events) => notifyAlerts(sql, clock, events) },
    { what: 'notifying webhooks of holds', work: (events) => notifyHolds(sql, clock, events) },
    { what: 'noting credits to look at', work: (events) => notifyCredits(sql, clock, lookSoon, events) },
  ];
}
