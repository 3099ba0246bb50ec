import { decode, encode } from '@msgpack/msgpack';
import { billingKey, type BillingRef } from '../../shared/books/billing-refs.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { bringUpToDate } from '../../shared/verification/account-moments.ts';
import type { World } from './world.ts';

// In the name of a class an instant stays: it is a name.
const MOVE = `
  local by = tonumber(ARGV[1])
  local function earlier(text)
    return (string.gsub(text, '([%z%[,])(1[5-9]' .. string.rep('%d', 11) .. ')%f[%D]', function(before, ms)
      return before .. string.format('%d', ms - by)
    end))
  end
  local function earlierState(state)
    for name, value in pairs(state) do
      if type(value) == 'table' then earlierState(value)
      elseif type(value) == 'number' and value > 1.5e12 and value < 2e12 then state[name] = value - by end
    end
    return state
  end
  local function earlierAccount(text)
    local settings, at = struct.unpack('s', text)
    local count = (#text - at + 1) / 8
    local values = { struct.unpack('<' .. string.rep('d', count), text, at) }
    if values[6] < 9e15 then values[6] = values[6] - by end
    return string.sub(text, 1, at - 1) .. struct.pack('<' .. string.rep('d', count), unpack(values, 1, count))
  end
  for i = 1, 2 do
    local fields = redis.call('HGETALL', KEYS[i])
    for at = 1, #fields, 2 do
      local name, text = fields[at], fields[at + 1]
      if name == 'u' and string.byte(text) == 64 then text = earlierAccount(text)
      elseif name == 't' then text = cmsgpack.pack(earlierState(cmsgpack.unpack(text)))
      else text = earlier(text) end
      redis.call('HSET', KEYS[i], name, text)
    end
  end
  for _, id in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do redis.call('ZINCRBY', KEYS[3], -by, id) end
  if redis.call('ZSCORE', KEYS[4], KEYS[1]) then redis.call('ZINCRBY', KEYS[4], -by, KEYS[1]) end`;

/**
 * Lets time pass for one billing record: moves the instants of its grants, schedules and open holds so many ms into the past, in
 * Postgres and in Redis, and does what is due by then.
 */
export async function passTime({ sql }: World, redis: ShardedRedis, id: string, ms: number): Promise<void> {
  const record = await recordOf(sql, id);
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      update grants set begins_at = begins_at - ${ms}, expires_at = expires_at - ${ms}, rolls_until = rolls_until - ${ms},
                        voided_at = voided_at - ${ms} where billing_id = ${id}`;
    await tx`update grant_classes set ends_at = ends_at - ${ms}, rolls_until = rolls_until - ${ms} where billing_id = ${id}`;
    await tx`
      update grant_schedules set anchor_at = anchor_at - ${ms}, next_at = next_at - ${ms}, ends_at = ends_at - ${ms}
      where billing_id = ${id}`;
    await tx`update billing_records set next_plan_at = next_plan_at - ${ms} where id = ${id}`;
  });
  const { shard, workspaceId, externalMeterId: meter } = record;
  const holds = [keyspace.openHolds(shard, workspaceId, meter), keyspace.holdEnds(shard, workspaceId, meter)];
  const keys = [billingKey(record), ...holds, keyspace.due(shard)];
  await redis.node(shard).client.eval(MOVE, keys.length, ...keys, ms);
  await bringUpToDate(redis, shard, billingKey(record));
}

/** As if what a record's account has of its first ended grant had happened so many times more. */
export async function repeatEnded({ sql }: World, redis: ShardedRedis, id: string, times: number): Promise<void> {
  const record = await recordOf(sql, id);
  const { client } = redis.node(record.shard);
  const state = decode((await client.hgetBuffer(billingKey(record), 't'))!) as number[][][];
  const [[number = 0, ...rest] = []] = state[4]!;
  state[4] = [...state[4]!, ...Array.from({ length: times }, (_, i) => [number + 1_000 + i, ...rest])];
  await client.hset(billingKey(record), 't', Buffer.from(encode(state)));
}

/** A billing record as the functions of the api name it. */
export async function recordOf(sql: World['sql'], id: string): Promise<BillingRef> {
  const [record] = await sql<[BillingRef]>`
    select id, shard, workspace_id, external_meter_id from billing_records where id = ${id}`;
  return record;
}
