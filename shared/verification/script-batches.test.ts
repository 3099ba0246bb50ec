import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ApiError } from '../contract/errors.ts';
import { makeLogger } from '../runtime/log.ts';
import { connectRedis, type ShardedRedis } from '../stores/redis.ts';
import { batchScriptCalls } from './script-batches.ts';

const DEADLINE_MS = 50;
const call = { shard: 7, key: 'no key', packed: '' };
const sockets: { destroy(): void }[] = [];
let frozen = false;
let redis: ShardedRedis;

// A way to the real Redis that can be frozen: then requests go nowhere, and the connection stays.
const way = createServer((inner) => {
  const { hostname, port } = new URL(process.env.TEST_REDIS_URL!);
  const outer = connect(Number(port), hostname);
  inner.on('data', (data) => frozen || outer.write(data));
  outer.pipe(inner);
  sockets.push(
    inner.on('error', () => {}),
    outer.on('error', () => {}),
  );
});

test.before(async () => {
  await once(way.listen(0, '127.0.0.1'), 'listening');
  const { port } = way.address() as AddressInfo;
  redis = connectRedis(`redis://127.0.0.1:${port}`, makeLogger('test', 'silent'));
  await redis.connected(5_000);
});
test.after(async () => {
  for (const socket of sockets) socket.destroy();
  way.close();
  await redis.close();
});

test('an undecided call names the time that it lost in a busy process, and not only what was left for Redis', async () => {
  const ask = batchScriptCalls(redis, () => false, DEADLINE_MS);
  frozen = true;
  // The first call is sent at once; the second waits for the event loop, which is busy beyond the deadline.
  const calls = [ask(call), ask(call)].map((asked) => asked.catch((error: unknown) => error));
  const until = performance.now() + 2 * DEADLINE_MS;
  while (performance.now() < until);
  const [sent, late] = await Promise.all(calls);
  assert.equal(causes(sent), ['no answer within 50 ms']);
  const [spent, last] = causes(late);
  assert.match(spent ?? '', /^\d+ of the 50 ms for an answer had passed in this busy process before it asked Redis$/);
  assert.is(last, 'no answer within 1 ms');
});

test.run();

function causes(error: unknown): string[] {
  assert.instance(error, ApiError);
  assert.is((error as ApiError).errorName, 'redis_unavailable');
  const messages: string[] = [];
  for (let { cause } = error as Error; cause instanceof Error; { cause } = cause) messages.push(cause.message);
  return messages;
}
