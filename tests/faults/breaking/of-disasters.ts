import { setTimeout as sleep } from 'node:timers/promises';
import postgres from '../../../shared/stores/postgres-driver.ts';
import { readEvents } from '../../../shared/events/event.ts';
import { isOutcome } from '../../../shared/events/outcome.ts';
import { keyspace, meterShard } from '../../../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { untilWritten } from '../../helpers/own-redis.ts';
import { makeKey, type Key } from '../load/participants.ts';
import { onPlainRedis, type Fault, type FaultContext } from './fault.ts';
import { HEALTHY } from './proxy.ts';

const WITHIN_MS = 30_000;
const BOOKED_WITHIN_MS = 15_000;
const LOOK_EVERY_MS = 100;
const LATER_TRANSACTIONS = 20_000;
const CALLS_OF_A_DAY = 50;

/** What happens to everything at once, or to one record among all. */
export const faultsOfDisasters: Fault[] = [
  {
    name: 'Postgres restored into a new cluster, then an older Redis',
    expected: 'no disabled key is VALID, no limit is passed',
    on: onPlainRedis,
    make: moveThenFallBack,
  },
  {
    name: 'backup and restore of everything',
    expected: 'what was answered before the backup is there; usage and balance agree on the rest',
    on: (kind) => onPlainRedis(kind) && kind.bus === 'redis',
    async make({ stage, random, now, restored }) {
      const backupFrom = now();
      await stage.moves.backUp();
      await sleep(random.between(1_000, 3_000));
      await stage.moves.restore(() => restored(backupFrom));
    },
  },
  {
    name: 'a record that can not be settled',
    expected: 'the others go on, and it is refused until it can be',
    on: onPlainRedis,
    make: poison,
  },
];

/**
 * 1. Postgres has come far in its own count of transactions, and Redis knows it.
 * 2. Redis is kept as it is then.
 * 3. A new cluster takes over, which counts from the beginning; a key is disabled.
 * 4. Redis comes back as it was kept: it must learn of the disabling again, and of what limits had counted.
 */
async function moveThenFallBack(context: FaultContext): Promise<void> {
  const { stage, manager, participants, verifier, emptied } = context;
  const key = await makeKey(manager, participants.workspaceId, 'moved', participants.roomy[0]!.meter);
  if (!key) return;
  await spendTransactions(context, key);
  await stage.moves.keepRedis();
  await untilDecided(context, [key]);
  const proxies = stage.proxiesTo('postgres');
  for (const proxy of proxies) proxy.set({ kind: 'cut' });
  await stage.moves.postgresToNewCluster();
  for (const proxy of proxies) proxy.set(HEALTHY);
  await untilDecided(context, [key]);

  const path = `/workspace/${participants.workspaceId}/api-key/${key.id}`;
  await manager.insist({ what: 'key.disable', of: key.id, method: 'patch', path, body: { enabled: false } });
  const ways = stage.proxiesTo('redis');
  // From now on nothing changes in Redis, so that what it loses is known.
  for (const way of ways) way.set({ kind: 'cut' });
  emptied(await heldByOutbox(context));
  await stage.moves.bringRedisBack();
  for (const way of ways) way.set(HEALTHY);
  await untilDecided(context, [key]);
  for (let times = 5; times > 0; times--) await verifier.verify(key);
  // As much again as its limit of a day: unless that knows what the older Redis has lost, it is passed.
  for (let times = CALLS_OF_A_DAY; times > 0; times--)
    await verifier.verify(participants.windowed!, { costMicros: 1_000_000 });
}

/** Uses up transactions of Postgres until the shard of a key has a checkpoint beyond what a new cluster comes to. */
async function spendTransactions({ stage, participants, complain }: FaultContext, key: Key): Promise<void> {
  const sql = postgres(stage.postgresUrl, { max: 1, onnotice: () => {} });
  try {
    await sql`set synchronous_commit = off`;
    await sql.unsafe(`do $$ begin
      for i in 1..${LATER_TRANSACTIONS} loop perform pg_current_xact_id(); commit; end loop; end $$`);
  } finally {
    await sql.end();
  }
  const meta = keyspace.meta(meterShard(participants.workspaceId, key.meter!.name));
  const until = performance.now() + WITHIN_MS;
  while (Number(await stage.redis[0]!.hget(meta, 'checkpoint')) < LATER_TRANSACTIONS) {
    if (performance.now() > until) return complain('no shard has learned how far Postgres is');
    await sleep(LOOK_EVERY_MS);
  }
}

async function heldByOutbox({ stage }: FaultContext): Promise<string[]> {
  const step = stage.redis[0]!.multi();
  for (const shard of ALL_SHARDS) step.xrange(keyspace.outbox(shard), '-', '+');
  const entries = ((await step.exec()) ?? []).flatMap(([, found]) => found as [id: string, fields: string[]][]);
  const events = entries.filter(([, [, value]]) => !isOutcome(value ?? ''));
  return events.flatMap(([, fields]) => readEvents(fields).map(({ usageName }) => usageName));
}

/** Verifies keys until each is decided again. */
async function untilDecided({ verifier, now, complain }: FaultContext, keys: Key[]): Promise<void> {
  const since = now();
  while (keys.some((key) => verifier.decidedAt(key.id) < since)) {
    if (now() - since > WITHIN_MS) return complain(`keys were not decided within ${WITHIN_MS / 1000} s`);
    for (const key of keys) await verifier.verify(key);
    await sleep(LOOK_EVERY_MS);
  }
}

/** One record's counters can't be read while its shard, like all others, is opened again. */
async function poison(context: FaultContext): Promise<void> {
  const { stage, random, participants, during } = context;
  const [redis] = stage.redis;
  const [other, victim] = participants.roomy as [Key, Key];
  const { billing, name } = victim.meter!;
  const record = keyspace.billing(meterShard(participants.workspaceId, name), participants.workspaceId, name);
  const heal = random.chance(0.5) ? await spoilField(redis!, record) : await spoilKind(redis!, record);
  await during(
    'poisoned',
    async () => {
      await untilWritten(redis!);
      stage.signal('redis', 'SIGKILL');
      await sleep(random.between(500, 1_500));
      const { roomy: _, ...rest } = participants;
      await untilDecided(context, [other, ...rest.tight, rest.capped, rest.limited, rest.unmetered]);
      await untilBooked(context, other);
      await sleep(random.between(1_000, 3_000));
    },
    billing,
  );
  await heal();
}

type Client = FaultContext['stage']['redis'][number];

/** Makes a counter no number; gives how to undo it, unless the service has found a number by itself. */
async function spoilField(redis: Client, record: string): Promise<() => Promise<unknown>> {
  const swap = `local before = redis.call('HGET', KEYS[1], 'u')
    if ARGV[1] == '' or before == ARGV[1] then redis.call('HSET', KEYS[1], 'u', ARGV[2]) end
    return before or '0'`;
  const before = (await redis.eval(swap, 1, record, '', 'poison')) as string;
  return () => redis.eval(swap, 1, record, 'poison', before);
}

/** Puts a text in the place of the record; gives how to undo it, unless the service has done it by itself. */
async function spoilKind(redis: Client, record: string): Promise<() => Promise<unknown>> {
  const [dumped] = (await redis.multi().dumpBuffer(record).set(record, 'poison').exec()) ?? [];
  return async () => {
    if ((await redis.type(record)) === 'string') await redis.restore(record, 0, dumped![1] as Buffer, 'REPLACE');
  };
}

/** Waits until the books show a call that a record's key makes now. */
async function untilBooked({ manager, verifier, newestValid, now, complain }: FaultContext, key: Key): Promise<void> {
  const since = now();
  await verifier.verify(key, { costMicros: 1 });
  const { billing } = key.meter!;
  const usageName = newestValid(billing)?.call ?? '';
  while (now() - since < BOOKED_WITHIN_MS) {
    const query = new URLSearchParams({ usageName });
    const { body } = await manager.read(`/usage/${billing}?${query.toString()}`);
    if (body.data?.length) return;
    await sleep(LOOK_EVERY_MS);
  }
  complain(`usage of another record was not in the books within ${BOOKED_WITHIN_MS / 1000} s`);
}
