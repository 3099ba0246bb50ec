import { byHalves, requireReady } from '../../../shared/books/by-halves.ts';
import { allowWorkspace } from '../../../shared/books/usage/allowed-workspace.ts';
import type { UsageStores } from '../../../shared/books/usage/query.ts';
import {
  planEvents,
  readBefore,
  readHours,
  seriesOf,
  type HourUsage,
  type MeterDestination,
} from '../../../shared/books/meters/plan.ts';
import { booksWatermark } from '../../../shared/events/watermark.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import { METERS_CHANNEL, meterColumns } from '../../../shared/stores/meters.ts';
import { notifyWebhooks } from '../../../shared/stores/notify-webhooks.ts';
import type { Query, Sql } from '../../../shared/stores/postgres.ts';
import { newId } from '../../../shared/values/ids.ts';
import { HOUR_MS, meterKind } from '../../../shared/values/meter-kinds.ts';
import { DAY_MS, dateOf, dayNumber } from '../../../shared/values/periods.ts';
import { AFTER_DAY_END_MS } from './rollup.ts';

type Stores = UsageStores & { sql: Sql };
type Noted = MeterDestination & { backfilledTo: string | null };
type NotedDay = { day: string; billingId: string; mark: number };

const DESTINATIONS_AT_ONCE = 100;
const RECORDS_AT_ONCE = 200;
// It then begins again, with later hours: a long backfill holds up nobody.
const RUN_MS = 60_000;
// A destination with more work has its next turn after the others.
const PAGES_AT_ONCE = 20;
// While more waits for a destination, what else there is stays noted.
const MOST_WAITING = 1_000_000;
/** Events of older days may be gone: nothing more is planned of such a day, and the proof of its month tells what it lacks. */
export const KEPT_DAYS = 93;

/**
 * Plans what external meters are told: of each hour that is over, and that the books have whole, what each record used by usage name. It may
 * die anywhere:
 * 1. Read the notes of some days. Whoever puts events into the books notes their days afterwards, and a new destination all days since
 *    it starts.
 * 2. Store of each hour what the books have more, or less, than was planned before. Planned again, nothing is left to plan.
 * 3. Remove the notes of days that are over and have not changed meanwhile; the others wait for their next hour.
 */
export async function planMeters(stores: Stores, clock: Clock, log: Logger, signal: AbortSignal): Promise<void> {
  const { sql } = stores;
  const [nowMs, until] = [clock.now(), clock.monotonic() + RUN_MS];
  await tellFailures(sql, nowMs);
  const reachMs = Math.floor((await booksWatermark(sql)) / HOUR_MS) * HOUR_MS;
  const run: Run = { nowMs, reachMs, signal, planned: new Map(), failed: 0 };
  for (let isOver = false; !isOver && clock.monotonic() < until;) {
    isOver = true;
    for (let after = ''; ;) {
      signal.throwIfAborted();
      const some = await notedDestinations(sql, reachMs, after);
      for (const destination of some)
        isOver =
          (await planSome(stores, destination, run, log).catch((error: unknown) => {
            signal.throwIfAborted();
            log.warn({ error, destinationId: destination.id }, 'planning for an external meter failed; trying again');
            run.failed += 1;
            return true;
          })) && isOver;
      if (some.length < DESTINATIONS_AT_ONCE) break;
      after = some.at(-1)!.id;
    }
  }
  if (run.failed > 0) throw new Error(`planning failed ${run.failed} times; what failed alone stays noted`);
}

function notedDestinations(sql: Sql, reachMs: number, after: string): Promise<Noted[]> {
  return sql<Noted[]>`
    select ${meterColumns(sql)}, backfilled_to from meter_destinations d
    where deleted_at is null and id > ${after}
      and (backfilled_to is not null
           or exists (select from meter_days m where m.destination_id = d.id and m.planned_to < ${new Date(reachMs)}))
      and (select coalesce(sum(number), 0) from meter_sums s where s.destination_id = d.id and s.state = 'WAITING') < ${MOST_WAITING}
    order by id limit ${DESTINATIONS_AT_ONCE}`;
}

/** `planned`: by destination the last note that this run has had. It has each once, so that what fails holds up no other. */
type Run = {
  nowMs: number;
  reachMs: number;
  signal: AbortSignal;
  planned: Map<string, Pick<NotedDay, 'day' | 'billingId'>>;
  failed: number;
};

/** Does some of the work on a destination, and gives whether that was all. */
async function planSome(stores: Stores, destination: Noted, run: Run, log: Logger): Promise<boolean> {
  const { sql, books } = stores;
  const { nowMs, reachMs, signal, planned } = run;
  if (destination.backfilledTo !== null) {
    await backfill(sql, destination, nowMs);
    return false;
  }
  for (let page = 0; page < PAGES_AT_ONCE; page++) {
    signal.throwIfAborted();
    const last = planned.get(destination.id) ?? { day: '0001-01-01', billingId: '' };
    const days = await sql<NotedDay[]>`
      select day, billing_id, mark from meter_days
      where destination_id = ${destination.id} and planned_to < ${new Date(reachMs)}
        and (day, billing_id) > (${last.day}, ${last.billingId})
      order by day, billing_id limit ${RECORDS_AT_ONCE}`;
    const ofDay = days.filter(({ day }) => day === days[0]!.day);
    if (ofDay.length === 0) return true;
    planned.set(destination.id, ofDay.at(-1)!);
    const failed = await byHalves(
      ofDay,
      (some) => planDay(stores, destination, some, run),
      () => requireReady(books, signal),
    );
    for (const { item, error } of failed)
      log.error({ error, destinationId: destination.id, ...item }, 'usage of a day can not be planned');
    run.failed += failed.length;
  }
  return false;
}

/** Notes all days of some records since the destination starts: what was marked before it was made. */
async function backfill(sql: Sql, { id, teamId, workspaceId, startsAt, backfilledTo }: Noted, nowMs: number) {
  const fromMs = Math.max(startsAt.getTime(), nowMs - KEPT_DAYS * DAY_MS);
  const [first, last] = [fromMs, nowMs].map((ms) => dateOf(Math.floor(ms / DAY_MS)));
  await sql.begin(async (tx) => {
    const records = await tx<{ id: string }[]>`
      select id from billing_records where workspace_id = ${workspaceId} and id > ${backfilledTo} order by id limit ${RECORDS_AT_ONCE}`;
    await tx`
      insert into meter_days (destination_id, day, billing_id, team_id)
      select ${id}, day::date, billing_id, ${teamId}
      from generate_series(${first!}::timestamp, ${last!}::timestamp, interval '1 day') day,
           unnest(${records.map((record) => record.id)}::text[]) as billing_id
      on conflict do nothing`;
    const next = records.length < RECORDS_AT_ONCE ? null : records.at(-1)!.id;
    await tx`update meter_destinations set backfilled_to = ${next} where id = ${id}`;
  });
}

async function planDay(
  stores: Stores,
  destination: MeterDestination,
  days: NotedDay[],
  { nowMs, reachMs }: Run,
): Promise<void> {
  const { day } = days[0]!;
  const startMs = dayNumber(day) * DAY_MS;
  // A day sooner than its events are removed: it may be slow.
  const isKept = startMs >= nowMs - (KEPT_DAYS - 1) * DAY_MS;
  if (isKept) {
    const hours = {
      startMs: Math.max(startMs, destination.startsAt.getTime()),
      endMs: Math.min(startMs + DAY_MS, reachMs),
      billingIds: days.map(({ billingId }) => billingId),
      nowMs,
    };
    for await (const usage of readHours(stores, allowWorkspace(destination.workspaceId), hours))
      await storePlanned(stores.sql, destination, days, usage);
  }
  const isOver = startMs + DAY_MS + AFTER_DAY_END_MS <= reachMs;
  const unchanged = unchangedOf(stores.sql, destination, days);
  if (isOver || !isKept) await stores.sql`delete from meter_days known using ${unchanged}`;
  else await stores.sql`update meter_days known set planned_to = ${new Date(reachMs)} from ${unchanged}`;
}

/** Of the notes (`known`) of a day those that are as they were read. */
function unchangedOf(sql: Query, { id }: MeterDestination, days: NotedDay[]) {
  return sql`
    unnest(${days.map(({ billingId }) => billingId)}::text[], ${days.map(({ mark }) => mark)}::bigint[]) as done (billing_id, mark)
    where known.destination_id = ${id} and known.day = ${days[0]!.day} and known.billing_id = done.billing_id and known.mark = done.mark`;
}

async function storePlanned(
  sql: Sql,
  destination: MeterDestination,
  days: NotedDay[],
  read: HourUsage[],
): Promise<void> {
  const { id, teamId, kind } = destination;
  await sql.begin(async (tx) => {
    // One at a time plans for it; one that was deleted is told nothing more.
    const [open] = await tx`
      select from meter_destinations where id = ${id} and deleted_at is null for no key update`;
    if (!open) return;
    // What changed since it was read comes again. Without a look, a process that has lost the job would take back what another one planned.
    const unchanged = await tx<{ billingId: string }[]>`
      select known.billing_id from meter_days known, ${unchangedOf(tx, destination, days)}`;
    const ids = new Set(unchanged.map(({ billingId }) => billingId));
    const usage = read.filter(({ billingId }) => ids.has(billingId));
    const before = await readBefore(tx, destination, usage);
    const planned = await planEvents(tx, destination, usage, before);
    if (planned.length === 0) return;
    const each = <Value>(value: (one: (typeof planned)[number]) => Value) => planned.map(value);
    await tx`
      insert into meter_events (id, destination_id, team_id, billing_id, hour, usage_name, number, micros, events, quantity, external_id,
                                event_name, state)
      select id, ${id}, ${teamId}, billing_id, hour, usage_name, number, micros, events, quantity, external_id, event_name, state
      from unnest(${each(() => newId('mev'))}::text[], ${each((one) => one.billingId)}::text[],
                  ${each(({ hourMs }) => new Date(hourMs).toISOString())}::timestamptz[], ${each((one) => one.usageName)}::text[],
                  ${each((one) => one.number)}::int[], ${each((one) => one.micros)}::bigint[], ${each((one) => one.events)}::bigint[],
                  ${each((one) => one.quantity)}::bigint[], ${each((one) => one.externalId)}::text[],
                  ${each((one) => one.eventName)}::text[], ${each((one) => one.state)}::text[])
        as one (id, billing_id, hour, usage_name, number, micros, events, quantity, external_id, event_name, state)`;
    if (meterKind(kind).takesWhole) {
      const series = [...new Map(planned.map((one) => [seriesOf(one), one])).values()];
      await tx`
        insert into meter_rests (destination_id, billing_id, usage_name, team_id, micros)
        select ${id}, billing_id, usage_name, ${teamId}, micros
        from unnest(${series.map((one) => one.billingId)}::text[], ${series.map((one) => one.usageName)}::text[],
                    ${series.map((one) => before.rests.get(seriesOf(one)) ?? 0)}::bigint[]) as one (billing_id, usage_name, micros)
        on conflict (destination_id, billing_id, usage_name) do update set micros = excluded.micros`;
    }
    await tx`select pg_notify(${METERS_CHANNEL}, '')`;
  });
}

// A destination fails for so long before anybody is told.
const TELL_AFTER_MINUTES = 60;

type Failing = Pick<MeterDestination, 'id' | 'teamId' | 'workspaceId' | 'kind'> & {
  name: string;
  failed: number;
  failedAt: Date | null;
  failingSince: Date | null;
  lastError: string;
};

/** Tells webhooks of destinations that fail: of events that failed for good once an hour, of a destination that takes none once. */
async function tellFailures(sql: Sql, nowMs: number): Promise<void> {
  for (let after = ''; ;) {
    const failing = await sql<Failing[]>`
    select id, team_id, workspace_id, kind, name, coalesce(last_error, '') as last_error,
           case when failed_at > now() - interval '1 day' then date_trunc('hour', failed_at) end as failed_at,
           case when failing_since < now() - make_interval(mins => ${TELL_AFTER_MINUTES}) then failing_since end as failing_since,
           (select coalesce(sum(number), 0)::bigint from meter_sums s where s.destination_id = d.id and s.state = 'FAILED') as failed
    from meter_destinations d
    where deleted_at is null and enabled and id > ${after}
      and (failed_at > now() - interval '1 day' or failing_since < now() - make_interval(mins => ${TELL_AFTER_MINUTES}))
    order by id limit ${DESTINATIONS_AT_ONCE}`;
    await notifyWebhooks(
      sql,
      failing.map(({ id, teamId, workspaceId, kind, name, failed, failedAt, failingSince, lastError }) => ({
        type: 'meter.failed',
        teamId,
        workspaceId,
        subjectId: id,
        cause: `${failedAt?.getTime() ?? ''} ${failingSince?.getTime() ?? ''}`,
        atMs: nowMs,
        data: {
          destinationId: id,
          name,
          kind,
          failedEvents: failed,
          ...(failingSince && { failingSince: failingSince.getTime() }),
          error: lastError,
        },
      })),
    );
    if (failing.length < DESTINATIONS_AT_ONCE) return;
    after = failing.at(-1)!.id;
  }
}
