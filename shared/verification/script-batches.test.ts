import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../runtime/clock.ts';
import { ApiError, type ErrorName } from '../contract/errors.ts';
import { makeLogger } from '../runtime/log.ts';
import { connectRedis, type ShardedRedis } from '../stores/redis.ts';
import { batchScriptCalls } from './script-batches.ts';
import { readScriptAnswers } from './script-protocol.ts';

// Longer than a busy machine takes until the first call is sent.
const DEADLINE_MS = 1_000;
const callNow = () => ({ shard: 7, key: 'no key', packed: '', team: 'team', cost: 10, since: performance.now() });
const url = new URL(process.env.TEST_REDIS_URL!);
const sockets: { destroy(): void }[] = [];
let frozen = false;
let redis: ShardedRedis;

// A way to the real Redis that can be frozen: then requests go nowhere, and the connection stays.
const way = createServer((inner) => {
  const { hostname, port } = url;
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
  redis = connectRedis(`redis://:${url.password}@127.0.0.1:${port}`, makeLogger('test', 'silent'), systemClock);
  await redis.connected(30_000);
});
test.after(async () => {
  for (const socket of sockets) socket.destroy();
  way.close();
  await redis.close();
});

test('a call that waited for too long in a busy process is refused unasked, as one that cost nothing', async () => {
  const script = { name: 'verify', readAnswers: readScriptAnswers } as const;
  const ask = batchScriptCalls(script, { redis, outboxFull: () => false, deadlineMs: DEADLINE_MS });
  frozen = true;
  // The first call is sent at once; the second waits for the event loop, which is busy beyond the deadline.
  const calls = [ask(callNow()), ask(callNow())].map((asked) => asked.catch((error: unknown) => error));
  const until = performance.now() + 2 * DEADLINE_MS;
  while (performance.now() < until);
  const [sent, late] = await Promise.all(calls);
  const [unanswered, ...more] = causes(sent, 'redis_unavailable');
  assert.match(unanswered ?? '', /^no answer within \d+ ms$/);
  assert.equal(more, []);
  const [spent, ...others] = causes(late, 'overloaded');
  assert.match(
    spent ?? '',
    new RegExp(`^\\d+ of the ${DEADLINE_MS} ms for an answer had passed in this busy process before it asked Redis$`),
  );
  assert.equal(others, []);
});

test.run();

function causes(error: unknown, name: ErrorName): string[] {
  assert.instance(error, ApiError);
  assert.is((error as ApiError).errorName, name);
  const messages: string[] = [];
  for (let { cause } = error as Error; cause instanceof Error; { cause } = cause) messages.push(cause.message);
  return messages;
}
