import type { Clock } from '../../shared/runtime/clock.ts';
import { RATE_LIMIT_NAME, type Limit } from '../../shared/contract/limits.ts';
import type { WebhookEvent } from '../../shared/contract/webhook-events.ts';
import { OTHER, timeOfOutcome, type CarriedOutcome } from '../../shared/events/outcome.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import { windowOf } from '../../shared/stores/limits.ts';
import { notifyWebhooks } from '../../shared/stores/notify-webhooks.ts';
import { windowAt, type Span } from '../../shared/values/calendar.ts';
import { forWanting } from './for-wanting.ts';

const MOST_KNOWN = 10_000;
const MINUTE_MS = 60_000;

/**
 * Makes what notifies webhooks of limits that refused calls, by outcomes that were just inserted. A limit notifies once for its window, since the id follows from both. This process remembers for which minutes it notified of a limit of
 * a key: one that refuses all day is looked at once a minute.
 *
 * Refusals one by one say the time, but all teams share their room in a process; of counts there is room for hundreds of each team.
 */
export function makeNotifyLimits(sql: Sql, clock: Clock) {
  const known = new Set<string>();
  return async function notifyLimits(outcomes: CarriedOutcome[]): Promise<void> {
    // Refusals last: where both are of a minute, theirs is the exact time.
    const refused = [...outcomes.flatMap(countedFor), ...outcomes.flatMap(refusedBy)];
    const fresh = new Map(refused.map((one) => [minuteOf(one), one] as const).filter(([minute]) => !known.has(minute)));
    await forWanting({ sql, clock }, ['limit.reached'], [...fresh.values()], (some) => notify(sql, some));
    for (const minute of fresh.keys()) {
      if (known.size >= MOST_KNOWN) known.clear();
      known.add(minute);
    }
  };
}

type Refused = {
  timeMs: number;
  workspaceId: string;
  keyId: string;
  on: 'key' | 'workspace' | 'billing';
  name: string;
};

/** A refusal by a limit over a window that is longer than a second; nothing for any other. */
function refusedBy(outcome: CarriedOutcome): Refused[] {
  if (outcome.kind !== 'refusal' || outcome.limitedBy === '') return [];
  const { timeMs, workspaceId, keyId, limitedBy } = outcome;
  const { on, name } = JSON.parse(limitedBy) as Pick<Refused, 'on' | 'name'>;
  return name === RATE_LIMIT_NAME ? [] : [{ timeMs, workspaceId, keyId, on, name }];
}

/** The same of a count, at the beginning of its minute; nothing where it does not say which key or which limit. */
function countedFor(outcome: CarriedOutcome): Refused[] {
  if (outcome.kind !== 'count' || outcome.limit === '' || outcome.wouldRefuse === 1) return [];
  const { workspaceId, keyId, limit } = outcome;
  if (limit === OTHER || keyId === OTHER) return [];
  const slash = limit.indexOf('/');
  const [on, name] = [limit.slice(0, slash) as Refused['on'], limit.slice(slash + 1)];
  return name === RATE_LIMIT_NAME ? [] : [{ timeMs: timeOfOutcome(outcome), workspaceId, keyId, on, name }];
}

function minuteOf({ keyId, on, name, timeMs }: Refused): string {
  return `${Math.floor(timeMs / MINUTE_MS)} ${keyId} ${on} ${name}`;
}

type Row = {
  place: number;
  teamId: string;
  limits: Limit[] | null;
  defaultLimits: Limit[] | null;
  meter: string | null;
  billingId: string | null;
  limitsOfRecord: Limit[] | null;
};

async function notify(sql: Sql, refused: Refused[]): Promise<void> {
  const of = <Value>(read: (one: Refused) => Value): Value[] => refused.map(read);
  // The settings as they are now: a limit that was removed since notifies nobody.
  const rows = await sql<Row[]>`
    select refused.place::int as place, k.team_id, k.limits, w.default_limits, k.external_meter_id as meter, b.id as billing_id,
           b.limits as limits_of_record
    from unnest(${of(({ keyId }) => keyId)}::text[]) with ordinality as refused (key_id, place)
    join api_keys k on k.id = refused.key_id
    join workspaces w on w.id = k.workspace_id
    left join billing_records b on b.workspace_id = k.workspace_id and b.external_meter_id = k.external_meter_id
    order by refused.place`;
  const events = rows.flatMap((row) => eventOf(refused[row.place - 1]!, row));
  await sql.begin((tx) => notifyWebhooks(tx, events));
}

function eventOf(refused: Refused, row: Row): WebhookEvent[] {
  const { on, name, keyId, workspaceId, timeMs: atMs } = refused;
  const { teamId, billingId, meter } = row;
  const list = { key: row.limits, workspace: row.defaultLimits, billing: row.limitsOfRecord }[on];
  const limit = list?.find((one) => one.name === name);
  const span = limit && toldOnceIn(limit, atMs);
  if (!limit || !span) return [];
  const { startMs: windowStartsAt, endMs: windowEndsAt } = span;
  const ofWhat = on === 'billing' ? { billingId: billingId!, externalMeterId: meter! } : { apiKeyId: keyId };
  return [
    {
      type: 'limit.reached',
      teamId,
      workspaceId,
      subjectId: on === 'billing' ? billingId! : keyId,
      cause: `${on} ${limit.per} ${windowStartsAt} ${name}`,
      atMs,
      data: { limit: { on, name, per: limit.per }, windowStartsAt, windowEndsAt, ...ofWhat },
    },
  ];
}

/** The window of the calendar, or the minutes or hours of the clock; none for less than a minute. */
function toldOnceIn({ per, timezone = 'UTC' }: Limit, atMs: number): Span | undefined {
  const window = windowOf(per);
  if (!('ms' in window)) return windowAt(window.unit, timezone, atMs, window.count);
  if (window.ms < MINUTE_MS) return undefined;
  const startMs = Math.floor(atMs / window.ms) * window.ms;
  return { startMs, endMs: startMs + window.ms };
}
