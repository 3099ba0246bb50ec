import { randomBytes } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectTestRedis } from '../../tests/helpers/world.ts';
import type { Caller } from '../contract/caller.ts';
import { ApiError } from '../contract/errors.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { newId } from '../values/ids.ts';
import { makeHoldCalls } from './hold-calls.ts';
import { makeHoldId } from './hold-id.ts';
import { MOST_PER_SCRIPT } from './waiting-calls.ts';

const redis = await connectTestRedis();

test('what is asked of many holds at once shares scripts, and each call gets an answer of its own', async () => {
  const key = randomBytes(32);
  const keys = async () => [key];
  let scripts = 0;
  const node: ShardedRedis['node'] = (shard) => {
    const real = redis.node(shard);
    return { ...real, script: (...args) => ((scripts += 1), real.script(...args)) };
  };
  const only = node(0);
  const holds = makeHoldCalls({
    redis: { ...redis, node: () => only },
    holdKeys: { get: keys, getAgain: keys },
    outboxFull: () => false,
    config: { VERIFY_DEADLINE_MS: 30_000, VERIFY_MAX_WAITING: 100 },
  });
  const caller = { teamId: newId('team') } as Caller;
  const idOf = (i: number) => {
    const said = { meter: `meter-${i}`, usageName: 'default', openedMs: '1', endsAtMs: '2', epoch: '1', turn: '0' };
    const names = { workspaceId: newId('ws'), billingId: newId('bill'), keyId: newId('key'), onExpiry: 'release' };
    const fields = { shard: String(i % 64), id: newId('evt').slice('evt_'.length), micros: '5', ...said, ...names };
    return makeHoldId(fields, caller.teamId, key);
  };
  const calls = Array.from({ length: 4 * MOST_PER_SCRIPT }, (_, i) =>
    holds.capture(caller, { holdId: idOf(i), usage: '1' }),
  );
  const answers = await Promise.all(calls.map((call) => call.catch((error: unknown) => error)));
  for (const answer of answers) {
    // Nothing has opened the shards of this Redis.
    assert.instance(answer, ApiError);
    assert.match(String((answer as ApiError).cause), /answered CLOSED/);
  }
  // The first one waits for nobody.
  assert.ok(scripts <= 6, `${scripts} scripts`);
});
