import { setImmediate as turn } from 'node:timers/promises';
import * as assert from 'uvu/assert';
import { storeWatermark } from '../../../shared/events/watermark.ts';
import type { UsageEvent } from '../../../shared/events/event.ts';
import { systemClock, type Clock } from '../../../shared/runtime/clock.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { newId } from '../../../shared/values/ids.ts';
import { HOUR_MS, meterKinds, type MeterKind } from '../../../shared/values/meter-kinds.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { newWebhookSecret, webhookSealer, webhookSecretPlace } from '../../../shared/values/webhook-secret.ts';
import { bookEvents } from '../../../tests/helpers/carry.ts';
import { makeHastyClock } from '../../../tests/helpers/clock.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { makeMeterReceiver } from '../../../tests/helpers/meter-receivers.ts';
import { connectTestStores } from '../../../tests/helpers/test-stores.ts';
import { planMeters } from '../../consumer/jobs/plan-meters.ts';
import type { Outcome } from '../call.ts';
import { claimDestination, sendSlice } from '../send-meters.ts';

export const TODAY_MS = Math.floor(Date.now() / DAY_MS) * DAY_MS;
/** Three days of hours that are over, in one month or in two. */
export const START_MS = TODAY_MS - 4 * DAY_MS;
export type Answering = 'well' | 'lost answer' | 'no answer' | 'no connection' | '429' | '500';

const log = makeLogger('test', 'silent');
const sealer = webhookSealer([Buffer.alloc(32, 7)]);
// It waits for nothing, and gives up what fails at once.
const impatient: Clock = { ...makeHastyClock(), after: (_, work) => (work(), () => {}) };

/**
 * Usage on its way to external meters, a step at a time: a test books, plans as the consumer does, and sends to receivers that hold to
 * the rules of the other sides. How an address is called: ../call.test.ts.
 */
export async function makeMeterStage() {
  const stores = await connectTestStores();
  const { sql, team } = stores;
  const plan = (over: Sql = sql) =>
    planMeters({ ...stores, sql: over }, systemClock, log, new AbortController().signal);
  const reach = (ms: number) => storeWatermark(sql, ms);
  const book = (billingId: string, atMs: number, costMicros: number, chosen: Partial<UsageEvent> = {}) =>
    bookEvents(stores, Date.now(), [testEvent({ timeMs: atMs, billingId, costMicros, ...chosen })]);

  async function newWorkspace(records = 2) {
    const id = newId('ws');
    await sql`insert into workspaces (id, team_id, name) values (${id}, ${team.id}, 'w')`;
    const billingIds = Array.from({ length: records }, () => newId('bill'));
    for (const billingId of billingIds)
      await sql`
        insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
        values (${billingId}, ${team.id}, ${id}, ${`cus_${billingId}`}, 0, 0, true)`;
    return { id, billingIds };
  }

  async function newDestination(workspaceId: string, kind: MeterKind, chosen: Record<string, string | number> = {}) {
    const id = newId('dest');
    const secret = kind === 'http' ? newWebhookSecret() : 'sk_test';
    const { batchSize } = meterKinds[kind];
    const of = { id, teamId: team.id, workspaceId, kind, name: kind, url: 'https://meters.example.com', batchSize };
    const sealed = { secretSealed: sealer.seal(secret, webhookSecretPlace(id)) as never, sealedUnder: sealer.keyName };
    const told = { eventNames: '{}', measure: 'credits', unitMicros: 1_000_000 };
    const startsAt = new Date(START_MS).toISOString();
    await sql`insert into meter_destinations ${sql({ ...of, ...told, ...sealed, startsAt, ...chosen })}`;
    const receiver = makeMeterReceiver(kind, { now: Date.now, secret });
    return {
      id,
      kind,
      workspaceId,
      receiver,
      read: async () => (await sql`select * from meter_destinations where id = ${id}`)[0]!,
      /** How many events it has in each state. */
      async states(): Promise<Record<string, number>> {
        const rows = await sql<{ state: string; count: number }[]>`
          select state, count(*)::int as count from meter_events where destination_id = ${id} group by 1`;
        return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
      },
      /** How many wait that it may have. */
      tried: async () =>
        (
          await sql`select from meter_events where destination_id = ${id} and state = 'WAITING' and tried_at is not null`
        ).count,
      /** Sends one slice of what waits, if it may be claimed; gives whether it was. */
      async send(
        answering: (body: string) => Answering | Promise<Answering> = () => 'well',
        over: Sql = sql,
        stopping?: AbortSignal,
      ): Promise<boolean> {
        await sql`update meter_destinations set claimed_until = null, next_at = now() where id = ${id}`;
        await sql`update meter_destinations set next_at = now() + interval '1 hour' where id <> ${id}`;
        const claimed = await claimDestination(sql);
        if (!claimed) return false;
        assert.is(claimed.id, id);
        const call = async ({ headers, body }: { headers: Record<string, string>; body: string }): Promise<Outcome> => {
          const how = await answering(body);
          if (how === 'no answer') return { error: 'socket hang up', durationMs: 1 };
          if (how === 'no connection') return { error: 'connect ECONNREFUSED', isUnsent: true, durationMs: 1 };
          if (how === '429') return { status: 429, answer: 'slower', durationMs: 1, retryAfter: '2' };
          if (how === '500') return { status: 500, answer: 'oh', durationMs: 1 };
          const answer = await receiver.answer({ headers, body }, () => turn());
          return how === 'lost answer' ? { error: 'socket hang up', durationMs: 1 } : { ...answer, durationMs: 1 };
        };
        const options = { sql: over, call, sealer, metrics: makeMetrics('test'), log, clock: impatient };
        await sendSlice({ ...options, random: () => 0 }, claimed, stopping);
        return true;
      },
      async sendAll() {
        for (let slices = 0; await this.send(); slices++) assert.ok(slices < 50, 'it comes to an end');
      },
    };
  }

  async function withWaiting(kind: MeterKind, hours: number) {
    const workspace = await newWorkspace(1);
    const destination = await newDestination(workspace.id, kind);
    const billingId = workspace.billingIds[0]!;
    const lines = Array.from({ length: hours }, (_, i) =>
      testEvent({ timeMs: START_MS + i * HOUR_MS, billingId, costMicros: 1_000_000 }),
    );
    await bookEvents(stores, Date.now(), lines);
    await reach(TODAY_MS);
    await plan();
    return destination;
  }

  /** The same connections, on which a process dies before a statement: it and all later ones fail. */
  function dyingAt(statement: number): Sql {
    let left = statement;
    const dying = <Query extends object>(one: Query): Query =>
      new Proxy(one, {
        apply(target, self, args: [TemplateStringsArray]) {
          if (Array.isArray(args[0]?.raw) && left-- <= 0) throw new Error('it died');
          return Reflect.apply(target as never, self, args);
        },
        get(target, name) {
          if (name !== 'begin') return Reflect.get(target, name);
          return (work: (tx: object) => Promise<unknown>) => sql.begin((tx) => work(dying(tx)));
        },
      });
    return dying(sql);
  }

  return { stores, sql, team, plan, reach, book, newWorkspace, newDestination, withWaiting, dyingAt };
}
