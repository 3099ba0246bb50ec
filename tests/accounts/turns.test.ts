import * as fc from 'fast-check';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectRedis, type ShardedRedis } from '../../shared/stores/redis.ts';
import { sequences, type Command } from './commands.ts';
import { loadCommands, Record } from './record.ts';

// The parts of scripts that keep accounts, on a real Redis, against the model.

const SEQUENCES = 200;

const test = suite('turns of accounts');
let redis: ShardedRedis;
test.before(async () => {
  const url = new URL(process.env.TEST_REDIS_URL!);
  url.pathname = `/${Number(process.env.TEST_SLOT) % 256}`;
  redis = connectRedis(url.href, makeLogger('test', 'error'));
  await redis.connected(5_000);
});
test.after(() => redis?.close());

test('Redis has the amounts of the model after each command, and what each grant gave', async () => {
  const { client } = redis.node(7);
  const sha = await loadCommands(client);
  const run = async (total: bigint, used: bigint, commands: Command[]) => {
    const record = new Record(client, sha);
    try {
      await record.startPlain(total, used);
      for (const [i, command] of commands.entries()) await record.do(command, i % 2 === 0);
    } finally {
      await record.remove();
    }
  };
  const runs = Number(process.env.ACCOUNTS_SEQUENCES ?? SEQUENCES);
  const result = await fc.check(fc.asyncProperty(fc.bigInt(0n, 9n), fc.bigInt(0n, 12n), sequences(50), run), {
    numRuns: runs,
  });
  assert.not(result.failed, fc.defaultReportMessage(result) ?? '');
});

test.run();
