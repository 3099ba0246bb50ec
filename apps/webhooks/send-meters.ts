import { METERS_CHANNEL, triedAt } from '../../shared/stores/meters.ts';
import { abortAfter } from '../../shared/runtime/clock.ts';
import { startLoop } from '../../shared/runtime/loop.ts';
import { mapLimited } from '../../shared/runtime/map-limited.ts';
import { retry } from '../../shared/runtime/retry.ts';
import type { Running, Runtime } from '../../shared/runtime/run.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import { chunks } from '../../shared/values/chunks.ts';
import { meterKind, type MeterKind } from '../../shared/values/meter-kinds.ts';
import type { Sealer } from '../../shared/values/seal.ts';
import { webhookSecretPlace } from '../../shared/values/webhook-secret.ts';
import type { makeCall, Outcome } from './call.ts';
import { withJitter } from './claim.ts';
import { judge, requestOf, tooLate, type ClaimedDestination, type WaitingEvent } from './meter-requests.ts';

export type SendOptions = Runtime & {
  sql: Sql;
  call: ReturnType<typeof makeCall>;
  sealer: Sealer;
  random: () => number;
};

// What one process has under way: so many destinations, of a team fewer, so that slow receivers of one leave others their places; and of
// each so many requests. No two requests at once are of the same customer and meter, which Stripe refuses.
const DESTINATIONS = 32;
const DESTINATIONS_OF_TEAM = 8;
const REQUESTS = 64;
// Of a kind that takes few in a second a slice is a quarter of these, so that no second has more.
const EVENTS_IN_A_SLICE = 2_000;
// A claim outlives a slice: its requests take 10 s at most, one after the other where they are of one customer and meter.
const CLAIM_SECONDS = 120;
const SLICE_MS = 60_000;
const NOTE_WITHIN_MS = 10_000;
// It is woken where something waits; what was put off for longer than a short pause is found by this.
const EVERY_MS = 15_000;
const SHORT_PAUSE_MS = 2_000;
// After more failures in a row batches get smaller, until one event that a receiver fails for holds up no others.
const PATIENT_ATTEMPTS = 3;

/**
 * Sends what waits for external meters, until stopped; then what is under way ends.
 * 1. Claim a destination, and note of a slice of its events that it may have them from now on. A crash after it holds the destination up
 *    until the claim ends.
 * 2. Send them. A crash after it sends them again, under the same identities.
 * 3. Note what became of each, and of the destination.
 */
export async function startSendingMeters(options: SendOptions): Promise<Running> {
  const { sql, log, clock } = options;
  const underWay = new Map<string, { teamId: string; sending: Promise<void> }>();
  const fullTeams = () =>
    [...Map.groupBy(underWay.values(), ({ teamId }) => teamId)]
      .filter(([, own]) => own.length >= DESTINATIONS_OF_TEAM)
      .map(([teamId]) => teamId);
  const loop = startLoop(clock, EVERY_MS, log, 'claiming external meters', async (stopping) => {
    while (underWay.size < DESTINATIONS && !stopping.aborted) {
      const claimed = await claimDestination(sql, [...underWay.keys()], fullTeams());
      if (!claimed) return;
      const sending = sendSlice(options, claimed, stopping)
        .catch((error: unknown) =>
          log.warn({ error, destinationId: claimed.id }, 'sending to an external meter failed; it comes again'),
        )
        .finally(() => {
          underWay.delete(claimed.id);
          loop.soon();
        });
      underWay.set(claimed.id, { teamId: claimed.teamId, sending });
    }
  });
  const { unlisten } = await sql.listen(METERS_CHANNEL, loop.soon, loop.soon);
  return {
    async stop() {
      await unlisten().catch((error: unknown) => log.debug({ error }, 'no connection listens any more'));
      await loop.stop();
      await Promise.all([...underWay.values()].map(({ sending }) => sending));
    },
  };
}

/**
 * Claims the destination that has waited longest for its turn, if something waits for one; none of those under way, and none of teams that
 * have their share. It reads one entry of an index for each of these.
 */
export async function claimDestination(
  sql: Sql,
  underWay: string[] = [],
  fullTeams: string[] = [],
): Promise<ClaimedDestination | undefined> {
  const [claimed] = await sql<ClaimedDestination[]>`
    with recursive waiting (id) as (
      (select destination_id from meter_events where state = 'WAITING' order by destination_id limit 1)
      union all
      select (select e.destination_id from meter_events e where e.state = 'WAITING' and e.destination_id > w.id
              order by e.destination_id limit 1)
      from waiting w where w.id is not null
    ), picked as (
      select id from meter_destinations
      where id in (select id from waiting) and enabled and deleted_at is null and next_at <= now() and not id = any(${underWay})
        and not team_id = any(${fullTeams}) and (claimed_until is null or claimed_until <= now())
      order by next_at limit 1 for no key update skip locked
    )
    update meter_destinations d set claimed_until = now() + make_interval(secs => ${CLAIM_SECONDS})
    from picked where d.id = picked.id
    returning d.id, d.team_id, d.workspace_id, d.kind, d.url, d.unit_micros, d.batch_size, d.secret_sealed, d.attempts,
              d.claimed_until::text`;
  return claimed;
}

/**
 * How long the oldest closed hour has waited to be planned or sent, by kind of destination: at half of them, since one that takes nothing is
 * told to its team.
 */
export function meterLags(sql: Sql): Promise<{ kind: MeterKind; seconds: number }[]> {
  return sql`
    select kind, percentile_disc(0.5) within group (
             order by greatest(0, extract(epoch from now() - oldest.hour - interval '1 hour')))::float as seconds
    from meter_destinations d cross join lateral (
      select least(
        (select hour from meter_events where destination_id = d.id and state = 'WAITING' order by hour limit 1),
        (select planned_to from meter_days where destination_id = d.id and planned_to > '-infinity' order by planned_to limit 1)) as hour
    ) oldest
    where d.enabled and d.deleted_at is null group by kind`;
}

/** What became of an event; `WAITING`: nobody knows, or it was not sent. */
type Result = {
  event: WaitingEvent;
  state: 'SENT' | 'FAILED' | 'WAITING';
  isUnknown?: boolean;
  error?: string | undefined;
};

/** Sends the next events of a claimed destination, and notes what became of them. Ends no sooner than another slice may follow. */
export async function sendSlice(
  options: SendOptions,
  destination: ClaimedDestination,
  stopping?: AbortSignal,
): Promise<void> {
  const { sql, clock, log, metrics } = options;
  const { kind } = destination;
  const beganMs = clock.monotonic();
  const { perSecond } = meterKind(kind);
  const events = await takeEvents(sql, destination.id, Math.min(EVENTS_IN_A_SLICE, Math.floor(perSecond / 4)));
  const nowMs = clock.now();
  const results: Result[] = [];
  const sendable: WaitingEvent[] = [];
  for (const event of events) {
    const error = tooLate(kind, event, nowMs);
    if (error === undefined) sendable.push(event);
    else results.push({ event, state: 'FAILED', error });
  }
  const putOff = await sendAll(options, destination, sendable, results, stopping);
  const pauseMs = await retry(
    clock,
    abortAfter(clock, NOTE_WITHIN_MS),
    log,
    'noting what an external meter was told',
    () => noteResults(options, destination, results, putOff),
  );
  for (const [state, outcome] of [
    ['SENT', 'sent'],
    ['FAILED', 'failed'],
    ['WAITING', 'put_off'],
  ] as const)
    metrics.meterEvents.inc({ kind, outcome }, results.filter((one) => one.state === state).length);
  const paceMs = (events.length * 1_000) / perSecond;
  const leftMs = Math.max(beganMs + paceMs - clock.monotonic(), pauseMs > SHORT_PAUSE_MS ? 0 : pauseMs);
  if (leftMs > 0) await clock.sleep(leftMs, stopping).catch(() => {});
}

/** Sends events; gives what made it stop before the end, if something did. */
async function sendAll(
  options: SendOptions,
  destination: ClaimedDestination,
  events: WaitingEvent[],
  results: Result[],
  stopping?: AbortSignal,
): Promise<Outcome | undefined> {
  const { call, sealer, clock, log } = options;
  const { id, teamId, url, batchSize, secretSealed, attempts } = destination;
  const until = clock.monotonic() + SLICE_MS;
  let putOff: Outcome | undefined;
  let secret: string | undefined;
  try {
    secret = secretSealed ? sealer.unseal(secretSealed, webhookSecretPlace(id)) : undefined;
  } catch (error) {
    log.error({ error, destinationId: id }, 'the secret of an external meter does not open under MASTER_KEY');
    putOff = { error: 'its secret could not be opened', durationMs: 0 };
  }
  // Where each request has one event, those of a customer and a meter follow each other.
  const queues =
    batchSize > 1
      ? chunks(events, Math.max(1, batchSize >> Math.max(0, attempts - PATIENT_ATTEMPTS))).map((batch) => [batch])
      : [...Map.groupBy(events, ({ externalId, eventName }) => `${externalId}\0${eventName}`).values()].map((own) =>
          own.map((event) => [event]),
        );

  async function send(batch: WaitingEvent[]): Promise<void> {
    if (putOff || stopping?.aborted || clock.monotonic() > until) {
      results.push(...batch.map((event): Result => ({ event, state: 'WAITING' })));
      return;
    }
    const message = requestOf(destination, batch, secret, new Date(clock.now()));
    const outcome = await call({ teamId, url, ...message });
    const verdict = judge(outcome, batch.length === 1);
    if (verdict === 'refused' && batch.length > 1) {
      // One of them may spoil the others, or be known already.
      for (const half of chunks(batch, Math.ceil(batch.length / 2))) await send(half);
      return;
    }
    if (verdict === 'not now' || verdict === 'unknown') putOff ??= outcome;
    const state = verdict === 'accepted' ? 'SENT' : verdict === 'refused' ? 'FAILED' : 'WAITING';
    const error = state === 'SENT' ? undefined : describe(outcome);
    results.push(...batch.map((event): Result => ({ event, state, isUnknown: verdict === 'unknown', error })));
  }
  await mapLimited(queues, REQUESTS, async (batches) => {
    for (const batch of batches) await send(batch);
  });
  return putOff;
}

/** Takes the events that have waited longest; from now on the destination may have them. */
function takeEvents(sql: Sql, destinationId: string, most: number): Promise<WaitingEvent[]> {
  return sql<WaitingEvent[]>`
    with picked as (
      select e.id, ${triedAt(sql)} as before
      from meter_events e join meter_destinations d on d.id = e.destination_id
      where e.destination_id = ${destinationId} and e.state = 'WAITING'
      order by e.hour, e.id limit ${most}
    )
    update meter_events e set tried_at = coalesce(picked.before, now()) from picked where e.id = picked.id and e.state = 'WAITING'
    returning e.id, e.billing_id, (extract(epoch from e.hour) * 1000)::bigint as hour_ms, e.usage_name, e.number, e.micros, e.events,
              e.quantity, e.external_id, e.event_name, picked.before`;
}

/** Gives how long the destination is left alone. */
async function noteResults(
  { sql, random }: SendOptions,
  { id, claimedUntil, attempts }: ClaimedDestination,
  results: Result[],
  putOff: Outcome | undefined,
): Promise<number> {
  const sent = results.some(({ state }) => state === 'SENT');
  const failed = results.findLast(({ state }) => state === 'FAILED');
  const error = putOff ? describe(putOff) : (failed?.error ?? null);
  // It takes what it can.
  const isSlowed = sent && putOff?.status === 429;
  // After it got something the destination begins again.
  const failures = putOff ? (sent ? 1 : attempts + 1) : 0;
  const pauseMs = putOff ? pauseAfter(failures, putOff.retryAfter, random()) : 0;
  await sql.begin(async (tx) => {
    // The destination first, as planning does, so that no two wait for each other's sums.
    const [claim] = await tx<{ isOurs: boolean | null }[]>`
      select claimed_until = ${claimedUntil}::text::timestamptz as is_ours from meter_destinations where id = ${id} for no key update`;
    // Another process may have the others under way by now, and knows more of them.
    const noted = claim?.isOurs ? results : results.filter(({ state }) => state === 'SENT');
    await tx`
      update meter_destinations
      set claimed_until = null, next_at = now() + ${pauseMs}::bigint * interval '1 millisecond', attempts = ${failures},
          failing_since = case when ${putOff !== undefined} then coalesce(case when not ${isSlowed} then failing_since end, now()) end,
          last_error = coalesce(${error}, case when ${putOff !== undefined} then last_error end),
          last_sent_at = case when ${sent} then now() else last_sent_at end,
          failed_at = case when ${failed !== undefined} then now() else failed_at end
      where id = ${id} and ${claim?.isOurs ?? false}`;
    await tx`
      update meter_events e
      set state = done.state, error = done.error, ended_at = case when done.state <> 'WAITING' then now() end,
          tried_at = case when done.state = 'SENT' or done.tried > 0 then e.tried_at end
      from unnest(${noted.map(({ event }) => event.id)}::text[], ${noted.map(({ state }) => state)}::text[],
                  ${noted.map((one) => one.error ?? null)}::text[],
                  ${noted.map(({ event, isUnknown = false }) => Number(isUnknown || event.before !== null))}::int[])
        as done (id, state, error, tried)
      where e.id = done.id and e.state = 'WAITING'`;
  });
  return pauseMs;
}

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 900_000;

/** The pause after so many failures in a row, or as long as the other side says, if that is longer; never above a quarter of an hour. */
export function pauseAfter(failures: number, retryAfter: string | undefined, random: number): number {
  const said = /^\d{1,6}$/.test(retryAfter ?? '') ? Number(retryAfter) * 1_000 : 0;
  const pause = Math.max(said, FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 20));
  return withJitter(Math.min(pause, LONGEST_PAUSE_MS), random);
}

function describe({ status, error, answer }: Outcome): string {
  return error ?? `${status}: ${answer ?? ''}`;
}
