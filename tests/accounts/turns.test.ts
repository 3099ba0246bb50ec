import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectTestRedis } from '../helpers/world.ts';
import { compareAccounts } from './compare-accounts.ts';
import { SHARD } from './test-shard.ts';

// A short form of `make accounts-model`.

const RUN = { sequences: 150, seed: 1 };
const { client } = (await connectTestRedis()).node(SHARD);

test('the scripts decide as the model does, and their numbered lines tell every amount and what they do to each class', async () => {
  assert.is(await compareAccounts(client, RUN), undefined);
});
