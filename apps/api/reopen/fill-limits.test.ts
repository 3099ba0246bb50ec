import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limit } from '../../../shared/contract/limits.ts';
import type { UsageEvent } from '../../../shared/events/event.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { newId } from '../../../shared/values/ids.ts';
import { bookEvents } from '../../../tests/helpers/carry.ts';
import { BEGIN_MS, connectClockedRedis } from '../../../tests/helpers/clocked-redis.ts';
import { testEvent, testLine } from '../../../tests/helpers/events.ts';
import { connectTestStores } from '../../../tests/helpers/test-stores.ts';
import { jsonValue } from '../resources/rows.ts';
import { fillLimits } from './fill-limits.ts';

// What limits over windows start at in a Redis that was emptied, by its clock.

const [SHARD, EPOCH, BUILD] = [7, 2, 'a builder'];
const NOON = BEGIN_MS + 12 * 3_600_000;
/** What was used how long before noon. */
const used = { 4: 1, 58: 2, 62: 4, 290: 8, 310: 16, 39_600: 32, 46_800: 64 };
const of = { unit: 'credits', limit: '1000' } as const;
const limits: Limit[] = [
  { unit: 'requests', limit: 1000, name: 'calls', per: 'day' },
  { ...of, name: 'minute', per: 'minute' },
  { ...of, name: 'minutes', per: '5 minutes' },
  { ...of, name: 'day', per: 'day' },
];
const COUNTED = [6, 0, 0, 1 + 2 + 4 + 8 + 16 + 32];
/** Lines of holds and of a call that was cancelled, in hours before noon, and what a day has counted of them. */
const lines: [
  what: string,
  requests: number,
  credits: number,
  ...[kind: Kind, hours: number, credits: number, detail?: string][],
][] = [
  ['open', 1, 0, ['hold', 2, 0]],
  ['released', 1, 0, ['hold', 2, 0], ['release', 1, 0]],
  ['captured', 1, 7, ['hold', 2, 0], ['capture', 1, 7]],
  ['captured late', 1, 5, ['hold', 3, 0], ['capture', 2, 100, 'charged'], ['correction', 1, -95]],
  ['of yesterday', 0, 0, ['hold', 13, 0], ['capture', 11, 100, 'charged'], ['correction', 10, -95]],
  ['cancelled', 0, 0, ['verification', 2, 9], ['correction', 2, -9, 'cancelled']],
];
type Kind = 'verification' | Parameters<typeof testLine>[0];

const { sql, books, team } = await connectTestStores();
const { redis, setNow } = await connectClockedRedis();
const { client } = redis.node(0);
const stores = { sql, redis, books, log: makeLogger('test', 'silent') };
const grant = () => ({ fence: `build:${BUILD}`, epoch: EPOCH });

test.before(async () => {
  await setNow(NOON);
  await client.hset(keyspace.meta(SHARD), { build: BUILD, epoch: EPOCH });
});

test('limits of records and keys start at what the books have of their window of the calendar, others begin anew', async () => {
  const owners = [...(await useKey(null)), ...(await useKey('meter'))];
  await fillLimits(stores, SHARD, grant);
  for (const owner of owners) assert.equal(await counted(owner), COUNTED, owner);
});

for (const [what, requests, credits, ...some] of lines)
  test(`a day of an emptied Redis has counted a hold as a request, and what became of it where it was opened: ${what}`, async () => {
    const holdId = newId('evt').slice('evt_'.length);
    const owners = await useKey('meter', (place) =>
      some.map(([kind, hours, cost, detail], i) => {
        const of = { ...place, timeMs: NOON - hours * 3_600_000, costMicros: cost * 1_000_000, sequence: i + 1 };
        if (kind === 'verification') return testEvent(of);
        return testLine(kind, { ...of, holdId, ...(detail !== undefined && { detail }) });
      }),
    );
    await fillLimits(stores, SHARD, grant);
    for (const owner of owners) assert.equal(await counted(owner), [requests, 0, 0, credits], owner);
  });

type Place = Pick<UsageEvent, 'workspaceId' | 'keyId' | 'billingId' | 'epoch'>;

/** Stores a key with the limits, and a record of its meter with the same ones, and books its use. Gives whose limits that is. */
async function useKey(meter: string | null, eventsOf = usedAt): Promise<string[]> {
  const [workspaceId, keyId, billingId] = [newId('ws'), newId('key'), meter === null ? '' : newId('bill')];
  const ofAll = jsonValue(sql, limits);
  await sql`insert into workspaces (id, team_id, name) values (${workspaceId}, ${team.id}, 'w')`;
  if (meter !== null)
    await sql`
      insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages, limits)
      values (${billingId}, ${team.id}, ${workspaceId}, ${meter}, ${SHARD}, 0, true, ${ofAll})`;
  await sql`
    insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, external_meter_id, limits)
    values (${keyId}, ${team.id}, ${workspaceId}, ${SHARD}, 'k', 'key', '', true, ${meter}, ${ofAll})`;
  const place = { workspaceId, keyId, billingId, epoch: EPOCH - 1 };
  await bookEvents(stores, NOON, eventsOf(place));
  return meter === null ? [keyId] : [keyId, `${workspaceId}:${meter}`];
}

function usedAt(place: Place): UsageEvent[] {
  return Object.entries(used).map(([seconds, credits], i) =>
    testEvent({ ...place, timeMs: NOON - Number(seconds) * 1_000, costMicros: credits * 1_000_000, sequence: i + 1 }),
  );
}

/** The credits that the limits of an owner have counted, as lua/parts/limits.lua keeps them: four numbers of each. */
async function counted(owner: string): Promise<number[]> {
  const text = await client.getBuffer(keyspace.limits(SHARD, owner));
  if (!text) return limits.map(() => 0);
  const first = text.indexOf(0) + 1 + 2 * 8;
  return limits.map((_, i) => text.readDoubleLE(first + i * 4 * 8) / 1_000_000);
}
