import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import { startLoop } from '../../shared/runtime/loop.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Running } from '../../shared/runtime/run.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import { WEBHOOKS_CHANNEL } from '../../shared/stores/tell-webhooks.ts';
import type { Sealer } from '../../shared/values/seal.ts';
import type { makeCall, Outcome } from './call.ts';
import { claim, type Claimed } from './claim.ts';
import { messageOf } from './message.ts';
import { gather } from './gather.ts';
import { isDelivered, noteTries, type Noted, type Tried } from './note-tries.ts';

type DeliverOptions = {
  sql: Sql;
  call: ReturnType<typeof makeCall>;
  sealer: Sealer;
  retriesMs: readonly number[];
  metrics: Metrics;
  log: Logger;
  clock: Clock;
  random: () => number;
};

// What one process has under way: the most for one webhook, for all that answer soon, and for all that are slow. The slow ones
// fill their own room, never that of the others.
const PER_WEBHOOK = 8;
const ROOM = { quick: 320, slow: 64 };
// A webhook whose last answer was quick and good may have more, in the first part of the room. Even if all 20 of a team stop
// answering at one moment, they leave a fifth of it: 96 + 20 × 8.
const EAGER = { perWebhook: 32, room: 96, known: 1_000, withinMs: 1_000 };
const EVERY_MS = 1_000;
// A claim costs Postgres as much for one delivery as for many, so what ends meanwhile is made up for together.
const CLAIM_AGAIN_MS = 20;
const MOST_NOTED_AT_ONCE = 64;
const NOTE_TIMES = 3;
const NOTE_AGAIN_MS = 1_000;

/**
 * Delivers what waits, until stopped; then what is under way ends.
 * 1. Claim deliveries. A crash after it holds these up until the claim ends by itself, at most 30 s.
 * 2. Call. A crash after it calls again, under the same id.
 * 3. Note the try. From then on it is delivered, or waits for its next try.
 */
export async function startDelivering(options: DeliverOptions): Promise<Running> {
  const { sql, log, metrics, retriesMs } = options;
  const note = gather(MOST_NOTED_AT_ONCE, (tries: Tried[]) =>
    again(options.clock, () => noteTries(sql, tries, retriesMs)),
  );
  const shared = { options, note, eager: new Set<string>(), byWebhook: new Map<string, number>() };
  const lanes = [makeLane({ ...shared, slow: false }), makeLane({ ...shared, slow: true })];
  const loops = lanes.map(({ work, freed }) => {
    const loop = startLoop(options.clock, EVERY_MS, log, 'claiming deliveries of webhooks', async () => {
      if (await work()) loop.soon();
      await options.clock.sleep(CLAIM_AGAIN_MS);
    });
    freed(loop.soon);
    return loop;
  });
  const soon = () => {
    for (const loop of loops) loop.soon();
  };
  const { unlisten } = await sql.listen(WEBHOOKS_CHANNEL, soon, soon);
  return {
    async stop() {
      await unlisten().catch((error: unknown) => log.debug({ error }, 'no connection listens any more'));
      await Promise.all(loops.map((loop) => loop.stop()));
      await Promise.all(lanes.map((lane) => lane.ended()));
      metrics.webhooksUnderWay.set(0);
    },
  };
}

type Note = (tried: Tried) => Promise<Noted>;

type LaneOptions = {
  options: DeliverOptions;
  note: Note;
  /** Webhooks whose last answer was quick and good. */
  eager: Set<string>;
  /** How many are under way, in either lane. */
  byWebhook: Map<string, number>;
  slow: boolean;
};

/** Room for deliveries of one kind of webhooks. */
function makeLane({ options, note, eager, byWebhook, slow }: LaneOptions) {
  const { sql, metrics, log } = options;
  const room = slow ? ROOM.slow : ROOM.quick;
  const underWay = new Set<Promise<void>>();
  let after = '';
  let soon = () => {};

  return {
    freed: (tell: () => void) => void (soon = tell),
    ended: async () => void (await Promise.all(underWay)),
    /** Claims what there is room for; gives whether more may be waiting. */
    async work(): Promise<boolean> {
      const most = room - underWay.size;
      if (most <= 0) return false;
      const { claimed, next } = await claim(sql, {
        slow,
        after,
        underWay: byWebhook,
        most,
        perWebhook: PER_WEBHOOK,
        eager: { ids: [...eager], perWebhook: EAGER.perWebhook, most: slow ? 0 : EAGER.room - underWay.size },
      });
      after = next;
      for (const one of claimed) begin(one);
      return next !== '' || claimed.length > 0;
    },
  };

  function begin(claimed: Claimed): void {
    const work = deliver({ options, note, eager }, claimed)
      .catch((error: unknown) =>
        log.warn({ error, deliveryId: claimed.id }, 'a try could not be noted; it comes again'),
      )
      .finally(() => {
        underWay.delete(work);
        count(claimed.webhookId, -1);
        metrics.webhooksUnderWay.dec();
        soon();
      });
    metrics.webhooksUnderWay.inc();
    underWay.add(work);
    count(claimed.webhookId, 1);
  }

  function count(webhookId: string, change: 1 | -1): void {
    const deliveries = (byWebhook.get(webhookId) ?? 0) + change;
    if (deliveries === 0) byWebhook.delete(webhookId);
    else byWebhook.set(webhookId, deliveries);
  }
}

type Delivering = Pick<LaneOptions, 'options' | 'note' | 'eager'>;

async function deliver({ options, note, eager }: Delivering, claimed: Claimed): Promise<void> {
  const { metrics, clock } = options;
  const atMs = clock.now();
  const outcome = await tryOnce(options, claimed, new Date(atMs));
  metrics.webhookSeconds.observe(outcome.durationMs / 1000);
  eager.delete(claimed.webhookId);
  if (isDelivered(outcome) && outcome.durationMs < EAGER.withinMs) eager.add(claimed.webhookId);
  if (eager.size > EAGER.known) eager.delete(eager.values().next().value!);
  const noted = await note({ claimed, outcome, atMs, random: options.random() });
  metrics.webhookTries.inc({
    outcome: isDelivered(outcome) ? 'delivered' : outcome.error === undefined ? 'refused' : 'failed',
  });
  if (noted === 'FAILED') metrics.webhooksGivenUp.inc();
  if (noted === 'DELIVERED' && claimed.attempts === 0)
    metrics.webhookDelaySeconds.observe((clock.now() - claimed.toldAt.getTime()) / 1000);
}

async function tryOnce({ call, sealer, log }: DeliverOptions, claimed: Claimed, now: Date): Promise<Outcome> {
  let message;
  try {
    message = messageOf(claimed, sealer, now);
  } catch (error) {
    log.error({ error, webhookId: claimed.webhookId }, 'the secret of a webhook does not open under MASTER_KEY');
    return { error: 'the message could not be signed', durationMs: 0 };
  }
  return call({ teamId: claimed.teamId, url: claimed.url, ...message });
}

async function again<Result>(clock: Clock, work: () => Promise<Result>): Promise<Result> {
  for (let times = 1; ; times++) {
    try {
      return await work();
    } catch (error) {
      if (times === NOTE_TIMES) throw error;
      await clock.sleep(NOTE_AGAIN_MS);
    }
  }
}
