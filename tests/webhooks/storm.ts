import { setTimeout as sleep } from 'node:timers/promises';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { makeCustomers } from '../helpers/customers.ts';
import { eventually } from '../helpers/eventually.ts';
import type { Answer } from '../helpers/request.ts';
import { makeParties, type Killable, type Parties, type TestReceiver } from './parties.ts';

/** What a receiver got of all that happened. */
export type Account = {
  /** Causes that it never took. */
  missing: string[];
  /** Causes that came under two ids, and ids that came for two causes. */
  doubled: string[];
  unsigned: number;
  requests: number;
  /** From the moment that an event was told until it was first tried, in ms, shortest first. */
  delaysMs: number[];
};
export type Report = { events: number; killed: Killable[]; failing: Account; steady: Account };

type Options = {
  events: number;
  /** How long a round of a hundred events takes at least. */
  roundMs: number;
  say(line: string): void;
};

const OF_ROUND = 100;
const VERIFY_BATCH = '/api/v1/api-key/verify/batch';
// How much of all has happened when one is killed; each at least once, the receiver twice.
const plan: { after: number; kill: Killable }[] = [
  { after: 0.15, kill: 'webhooks' },
  { after: 0.25, kill: 'api' },
  { after: 0.35, kill: 'receiver' },
  { after: 0.45, kill: 'verify' },
  { after: 0.55, kill: 'consumer' },
  { after: 0.65, kill: 'webhooks 2' },
  { after: 0.75, kill: 'receiver' },
];

/** Makes many events while every program and a receiver are killed in between; tells what the two receivers got in the end. */
export async function storm({ events, roundMs, say }: Options): Promise<Report> {
  const parties = await makeParties();
  const books = connectClickHouse(parties.world.env.CLICKHOUSE_URL!);
  try {
    const meter = await makeMeter(parties);
    const rounds = Math.ceil(events / OF_ROUND);
    for (let round = 0; round < rounds; round++) {
      const kills = plan.filter(({ after }) => Math.floor(after * rounds) === round);
      await Promise.all([makeEvents(parties, meter.key, round), killEach(parties, kills, say), sleep(roundMs)]);
    }
    say('all has happened; waiting until it is delivered');
    await eventually('each hold has ended, and is in the books', () => hasEnded(parties, meter.billingId), 300_000);
    const causes = new Set([...(await keysOf(parties)), ...(await endedHolds(books, meter.billingId))]);
    const { failing, steady } = parties.receivers;
    for (const receiver of [steady, failing]) {
      const count = () => deliveredTo(parties, receiver);
      await eventually('all is delivered', async () => (await count()) >= causes.size, 1_200_000).catch(
        async (error: unknown) => say(`${String(error)}: ${await count()} of ${causes.size}`),
      );
    }
    const accounts = {
      failing: await account(parties, failing, causes),
      steady: await account(parties, steady, causes),
    };
    return { events: causes.size, killed: plan.map(({ kill }) => kill), ...accounts };
  } finally {
    await books.close();
    await parties.stop();
  }
}

/** The share of a sorted list below which so many of a hundred are. */
export function percentile(sorted: number[], of100: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * of100) / 100))] ?? NaN;
}

async function makeMeter({ world, workspaceId }: Parties) {
  const customers = makeCustomers(world, workspaceId);
  const { key, meter } = await customers.meteredKey('1000000000');
  await eventually('it verifies', async () => (await customers.verify({ key })).body.status === 'VALID');
  return { key, billingId: (await customers.billing(meter)).id };
}

/** A half by the api, in its transactions: keys that are imported. A half by verify and the consumer: holds that nobody settles. */
async function makeEvents(parties: Parties, key: string, round: number): Promise<void> {
  const half = Array.from({ length: OF_ROUND / 2 }, (_, i) => i);
  const { workspaceId } = parties;
  const keys = half.map((i) => ({ name: 'k', workspaceId, key: `elsewhere-${round}-${i}`, allowWeak: true }));
  const hold = { expiresIn: 1, onExpiry: 'release' };
  const verifications = half.map(() => ({ key, billing: { usage: '1', hold } }));
  await Promise.all([
    untilAnswered(parties, 'api', '/api/v1/api-key/import', { keys }),
    untilAnswered(parties, 'verify', VERIFY_BATCH, { verifications }),
  ]);
}

/** Asks again while nobody answers: the program was killed. */
async function untilAnswered(parties: Parties, name: 'api' | 'verify', path: string, body: object): Promise<Answer> {
  return eventually(`${name} answers`, async () => {
    const answer = await parties.world.call('post', parties.url(name) + path, body).catch(() => undefined);
    return answer?.status === 200 ? answer : undefined;
  });
}

async function killEach(parties: Parties, kills: typeof plan, say: Options['say']): Promise<void> {
  for (const { kill } of kills) {
    say(`kill -9 of ${kill}`);
    await parties.kill(kill);
  }
}

async function hasEnded({ world, url }: Parties, billingId: string): Promise<boolean> {
  const base = `${url('api')}/api/v1/customer-billing/${billingId}`;
  const holds = await world.call('get', `${base}/holds`);
  if (holds.status !== 200 || holds.body.holds.length > 0) return false;
  const { body } = await world.call('get', `${base}/reconciliation`);
  return body.reconciliation?.status === 'EXACT';
}

async function keysOf({ world, workspaceId }: Parties): Promise<string[]> {
  const rows = await world.sql<{ id: string }[]>`select id from api_keys where workspace_id = ${workspaceId}`;
  return rows.map(({ id }) => id);
}

async function endedHolds({ client }: ReturnType<typeof connectClickHouse>, billingId: string): Promise<string[]> {
  const query = `select distinct event_id from usage_events where billing_id = {billingId:String} and kind = 'release'`;
  const answer = await client.query({ query, query_params: { billingId }, format: 'JSONEachRow' });
  return (await answer.json<{ event_id: string }>()).map(({ event_id: id }) => id);
}

async function deliveredTo({ world }: Parties, { webhookId }: TestReceiver): Promise<number> {
  const [row] = await world.sql<[{ count: number }]>`
    select count(*) as count from webhook_deliveries where webhook_id = ${webhookId} and state = 'DELIVERED'`;
  return row.count;
}

async function account({ world }: Parties, receiver: TestReceiver, causes: Set<string>): Promise<Account> {
  const received = receiver.received();
  const taken = new Set(received.filter(({ status }) => status === 204).map(({ cause }) => cause));
  const told = await world.sql<{ id: string; at: number }[]>`
    select e.id, extract(epoch from e.created_at)::float * 1000 as at from webhook_deliveries d
    join webhook_events e on e.id = d.event_id where d.webhook_id = ${receiver.webhookId}`;
  const toldAt = new Map(told.map(({ id, at }) => [id, at]));
  const first = new Map(received.toReversed().map(({ id, at }) => [id, at]));
  return {
    missing: [...causes].filter((cause) => !taken.has(cause)),
    doubled: [
      ...moreThanOne(received.map(({ id, cause }) => [cause, id])),
      ...moreThanOne(received.map(({ id, cause }) => [id, cause])),
    ],
    unsigned: received.filter(({ isSigned }) => !isSigned).length,
    requests: received.length,
    delaysMs: [...first].map(([id, at]) => at - toldAt.get(id)!).toSorted((a, b) => a - b),
  };
}

/** The names that stand for more than one other. */
function moreThanOne(pairs: [string, string][]): string[] {
  const others = new Map<string, Set<string>>();
  for (const [name, other] of pairs) others.set(name, (others.get(name) ?? new Set()).add(other));
  return [...others].flatMap(([name, known]) => (known.size > 1 ? [name] : []));
}
