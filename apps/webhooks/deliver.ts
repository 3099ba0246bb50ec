import { abortAfter } from '../../shared/runtime/clock.ts';
import { startLoop, type Loop } from '../../shared/runtime/loop.ts';
import { retry } from '../../shared/runtime/retry.ts';
import type { Running } from '../../shared/runtime/run.ts';
import { WEBHOOKS_CHANNEL } from '../../shared/stores/notify-webhooks.ts';
import type { Sealer } from '../../shared/values/seal.ts';
import type { Outcome } from './call.ts';
import type { SendOptions } from './send-meters.ts';
import { claim, type Claimed, isDelivered, noteTry } from './claim.ts';
import { Webhook } from 'standardwebhooks';
import { webhookSecretPlace } from '../../shared/values/webhook-secret.ts';

type DeliverOptions = SendOptions & { retriesMs: readonly number[] };

// What one process has under way: the most for one webhook, for all that answer soon, and for all that are slow. The slow ones
// fill their own room, never that of the others.
const PER_WEBHOOK = 8;
const ROOM = { quick: 320, slow: 64 };
// The earliest next claim, and the latest: the commit of a delivery may wake nobody.
const EVERY_MS = 1_000;
const WHILE_IDLE_EVERY_MS = 10_000;
// A claim costs Postgres as much for one delivery as for many, so what ends meanwhile is made up for together.
const CLAIM_AGAIN_MS = 20;
const NOTE_WITHIN_MS = 3_000;

/**
 * Delivers what waits, until stopped; then what is under way ends.
 * 1. Claim deliveries. A crash after it holds these up until the claim ends by itself, at most 30 s.
 * 2. Call. A crash after it calls again, under the same id.
 * 3. Note the try. From then on it is delivered, or waits for its next try.
 */
export async function startDelivering(options: DeliverOptions): Promise<Running> {
  const { sql, log, metrics } = options;
  const underWay = new Set<UnderWay>();
  const lanes = [false, true].map((slow) => startLane(options, underWay, slow));
  const soon = () => {
    for (const lane of lanes) lane.soon();
  };
  const { unlisten } = await sql.listen(WEBHOOKS_CHANNEL, soon, soon);
  return {
    async stop() {
      await unlisten().catch((error: unknown) => log.debug({ error }, 'no connection listens any more'));
      await Promise.all(lanes.map((lane) => lane.stop()));
      await Promise.all(Array.from(underWay, ({ ended }) => ended));
      metrics.webhooksUnderWay.set(0);
    },
  };
}

type UnderWay = { webhookId: string; slow: boolean; ended: Promise<void> };

/** Delivers to one kind of webhooks, for which there is room apart. */
function startLane(options: DeliverOptions, underWay: Set<UnderWay>, slow: boolean): Loop {
  const { sql, metrics, log, clock } = options;
  let after = '';
  const loop = startLoop(clock, EVERY_MS, log, 'claiming deliveries of webhooks', async () => {
    const all = [...underWay];
    const most = (slow ? ROOM.slow : ROOM.quick) - all.filter((one) => one.slow === slow).length;
    let nextMs = EVERY_MS;
    if (most > 0) {
      const webhookIds = all.map(({ webhookId }) => webhookId);
      const asked = { slow, after, underWay: webhookIds, most, perWebhook: PER_WEBHOOK };
      const { claimed, next, dueInMs } = await claim(sql, asked);
      // Of one page it is known when the next is due.
      const isAll = after === '' && next === '';
      after = next;
      for (const one of claimed) begin(one);
      if (next !== '' || claimed.length > 0) loop.soon();
      if (isAll) nextMs = Math.min(Math.max(dueInMs, EVERY_MS), WHILE_IDLE_EVERY_MS);
    }
    await clock.sleep(CLAIM_AGAIN_MS);
    return nextMs;
  });
  return loop;

  function begin(claimed: Claimed): void {
    const ended = deliver(options, claimed)
      .catch((error: unknown) =>
        log.warn({ error, deliveryId: claimed.id }, 'a try could not be noted; it comes again'),
      )
      .finally(() => {
        underWay.delete(one);
        metrics.webhooksUnderWay.set(underWay.size);
        loop.soon();
      });
    const one = { webhookId: claimed.webhookId, slow, ended };
    underWay.add(one);
    metrics.webhooksUnderWay.set(underWay.size);
  }
}

async function deliver(options: DeliverOptions, claimed: Claimed): Promise<void> {
  const { sql, metrics, log, clock, retriesMs, random } = options;
  const atMs = clock.now();
  const outcome = await tryOnce(options, claimed, new Date(atMs));
  metrics.webhookSeconds.observe(outcome.durationMs / 1000);
  const tried = { claimed, outcome, atMs, random: random() };
  const noted = await retry(clock, abortAfter(clock, NOTE_WITHIN_MS), log, 'noting a try of a delivery', () =>
    noteTry(sql, tried, retriesMs),
  );
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

type Message = { headers: Record<string, string>; body: string };

/** The request of a delivery: the same body under the same id at every try, signed for this moment. */
export function messageOf(claimed: Claimed, sealer: Sealer, now: Date): Message {
  const { eventId, type, at, sequence, workspaceId, data } = claimed;
  const start = { type, timestamp: new Date(at).toISOString(), sequence, ...(workspaceId !== null && { workspaceId }) };
  // As it was stored: a text that is read and written again may change.
  const body = `${JSON.stringify(start).slice(0, -1)},"data":${data}}`;
  return {
    headers: {
      'content-type': 'application/json',
      'user-agent': 'keytally-webhooks',
      'webhook-id': eventId,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': secretsOf(claimed, sealer)
        .map((secret) => new Webhook(secret).sign(eventId, now, body))
        .join(' '),
    },
    body,
  };
}

/** The secret, and for a day after a rotation the one before it. */
function secretsOf({ webhookId, secretSealed, previousSealed }: Claimed, sealer: Sealer): string[] {
  return [secretSealed, previousSealed]
    .filter((sealed) => sealed !== null)
    .map((sealed) => sealer.unseal(sealed, webhookSecretPlace(webhookId)));
}
