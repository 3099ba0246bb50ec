import { connect, createServer } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from '../../tests/helpers/clock.ts';
import { listen } from '../../tests/helpers/listen.ts';
import { ApiError, type ErrorName } from '../contract/errors.ts';
import { makeLogger } from '../runtime/log.ts';
import { noTelemetry, spans } from '../runtime/telemetry.ts';
import { connectRedis } from '../stores/redis.ts';
import { batchScriptCalls } from './script-batches.ts';
import { readScriptAnswers } from './script-protocol.ts';

const DEADLINE_MS = 1_000;
const url = new URL(process.env.TEST_REDIS_URL!);
const sockets: { destroy(): void }[] = [];
const clock = makeTestClock();
let frozen = false;
let reached = 0;

// A way to the real Redis that can be frozen: then requests go nowhere, and the connection stays.
const way = createServer((inner) => {
  const { hostname, port } = url;
  const outer = connect(Number(port), hostname);
  inner.on('data', (data) => {
    reached += 1;
    if (!frozen) outer.write(data);
  });
  outer.pipe(inner);
  sockets.push(
    inner.on('error', () => {}),
    outer.on('error', () => {}),
  );
});

const { port } = await listen(way);
const redis = connectRedis(`redis://:${url.password}@127.0.0.1:${port}`, makeLogger('test', 'silent'), clock);
await redis.connected(30_000);
test.after(async () => {
  for (const socket of sockets) socket.destroy();
  await redis.close();
});

function makeAsk() {
  const script = { name: 'verify', span: spans.script, readAnswers: readScriptAnswers } as const;
  const config = { VERIFY_DEADLINE_MS: DEADLINE_MS, VERIFY_MAX_WAITING: 0 };
  const ask = batchScriptCalls(script, { redis, outboxFull: () => false, config, telemetry: noTelemetry });
  return (more: { cost?: number; isGone?: () => boolean } = {}) => {
    const call = { shard: 7, key: 'no key', packed: '', team: 'team', cost: 10, since: clock.monotonic(), ...more };
    return ask(call).catch((error: unknown) => error);
  };
}

test('a call whose client leaves in the turn after it came is not sent, where this process may have stood still', async () => {
  const ask = makeAsk();
  await clock.advance(60);
  const before = reached;
  let isGone = false;
  const asked = ask({ isGone: () => isGone });
  await nextTurn();
  isGone = true;
  assert.equal(causes(await asked, 'overloaded'), ['its client has left']);
  assert.is(reached, before);
});

test('a call that waited for too long in a busy process is refused unasked, as one that cost nothing', async () => {
  const ask = makeAsk();
  frozen = true;
  // So much is under way with the first that the second must wait, which takes longer than the deadline.
  const first = ask({ cost: 10_000 });
  for (let turn = 0; turn < 8; turn++) await nextTurn();
  const calls = [first, ask()];
  await clock.advance(2 * DEADLINE_MS);
  const [sent, late] = await Promise.all(calls);
  const [unanswered, ...more] = causes(sent, 'redis_unavailable');
  assert.match(unanswered ?? '', /^no answer within \d+ ms$/);
  assert.equal(more, []);
  const [spent, ...others] = causes(late, 'overloaded');
  const busy = /^\d{4} of the 1000 ms for an answer had passed in this busy process before it asked Redis$/;
  assert.match(spent ?? '', busy);
  assert.equal(others, []);
});

function causes(error: unknown, name: ErrorName): string[] {
  assert.instance(error, ApiError);
  assert.is((error as ApiError).errorName, name);
  const messages: string[] = [];
  for (let { cause } = error as Error; cause instanceof Error; { cause } = cause) messages.push(cause.message);
  return messages;
}
