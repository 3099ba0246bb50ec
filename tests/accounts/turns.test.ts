import type { Redis } from 'ioredis';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { connectTestRedis } from '../helpers/world.ts';
import { compareAccounts, compareLosses } from './compare-accounts.ts';
import { SHARD } from './test-shard.ts';

// A short form of `make accounts-model`.

const SEQUENCES = 150;

let redis: ShardedRedis;
let client: Redis;
test.before(async () => {
  redis = await connectTestRedis();
  ({ client } = redis.node(SHARD));
});

test('the scripts decide as the model does, and their numbered lines tell every amount and what each class gave', async () => {
  assert.is((await compareAccounts(client, { sequences: SEQUENCES, seed: 1 })).failure, undefined);
});

test('crossed again after Redis lost its tail, under another event, each alert of the model is listed once', async () => {
  assert.is((await compareLosses(client, { sequences: SEQUENCES, seed: 1 })).failure, undefined);
});
