import { queryObjects } from 'node:v8';
import type { Kafka as Client } from 'kafkajs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../runtime/log.ts';
import { consumeTopic } from './kafka-consumer.ts';

/** A consumer whose broker can't be reached. */
class Unconnected {
  readonly events = { CRASH: 'crash', GROUP_JOIN: 'group join' };
  on(): void {}
  async connect(): Promise<void> {
    throw new Error('nobody listens');
  }
  async disconnect(): Promise<void> {}
}

test('a failed attempt to connect leaves nothing behind', async () => {
  let made = 0;
  const often = Promise.withResolvers<void>();
  const consumer = () => {
    if (++made === 4) often.resolve();
    return new Unconnected();
  };
  const client = { consumer } as unknown as Client;
  const [prepare, take, log] = [async () => {}, async () => true, makeLogger('test', 'silent')];
  const consuming = consumeTopic({ client, topic: 't', group: 'g', prepare, take, log });
  await often.promise;
  // That of the attempt in progress, and perhaps that of the one before.
  const left = queryObjects(Unconnected, { format: 'count' });
  await consuming.stop();
  assert.ok(left <= 2, `${left} consumers`);
});
