import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limit } from '../../../shared/contract/limits.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { newId } from '../../../shared/values/ids.ts';
import { bookEvents } from '../../../tests/helpers/carry.ts';
import { BEGIN_MS, connectClockedRedis } from '../../../tests/helpers/clocked-redis.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
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
  { ...of, name: 'second', per: 'second' },
  { ...of, name: 'minute', per: 'minute' },
  { ...of, name: 'minutes', per: '5 minutes' },
  { ...of, name: 'day', per: 'day' },
];
const COUNTED = [0, 0, 0, 1 + 2 + 4 + 8 + 16 + 32];

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

/** Stores a key with the limits, and a record of its meter with the same ones, and books its use. Gives whose limits that is. */
async function useKey(meter: string | null): Promise<string[]> {
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
  const events = Object.entries(used).map(([seconds, credits], i) =>
    testEvent({ ...place, timeMs: NOON - Number(seconds) * 1_000, costMicros: credits * 1_000_000, sequence: i + 1 }),
  );
  await bookEvents(stores, NOON, events);
  return meter === null ? [keyId] : [keyId, `${workspaceId}:${meter}`];
}

/** The credits that the limits of an owner have counted, as lua/parts/limits.lua keeps them: four numbers of each. */
async function counted(owner: string): Promise<number[]> {
  const text = (await client.getBuffer(keyspace.limits(SHARD, owner)))!;
  const first = text.indexOf(0) + 1 + 2 * 8;
  return limits.map((_, i) => text.readDoubleLE(first + i * 4 * 8) / 1_000_000);
}
