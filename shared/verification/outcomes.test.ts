import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectTestRedis } from '../../tests/helpers/world.ts';
import { carryOutcome } from '../events/outcome.ts';
import { openAddresses } from '../events/sealed-addresses.ts';
import { makeMetrics } from '../runtime/metrics.ts';
import { keyspace } from '../stores/keyspace.ts';
import { newId } from '../values/ids.ts';
import { SHARDS } from '../values/key-text.ts';
import type { Decision } from './decision.ts';
import type { Lookup } from './lookup-cache.ts';
import { makeOutcomes } from './outcomes.ts';

const redis = await connectTestRedis();

test('a process keeps at most 1,000 refusals of a second one by one, ten of a key, and counts them all', async () => {
  let hasRoom = false;
  const outcomes = makeOutcomes({
    redis,
    hasSpareRoom: () => hasRoom,
    metrics: makeMetrics('test'),
    random: Math.random,
  });
  const [teamId, workspaceId] = [newId('team'), newId('ws')];
  const refuse = (calls: number, keys: number) => {
    for (let i = 0; i < calls; i++) {
      const lookup = { workspaceId, keyPart: `"apiKeyId":"key_${i % keys}"` } as Lookup;
      outcomes.note(teamId, {}, { status: 'DISABLED', reason: 'DISABLED', body: '', lookup } satisfies Decision);
    }
  };
  refuse(3_000, 300);
  await outcomes.send();
  assert.equal([await sent('refused'), await counted()], [0, 0], 'the outbox has no room to spare: all of it waits');
  hasRoom = true;
  await outcomes.send();
  assert.equal([await sent('refused'), await counted()], [1_000, 3_000]);
  refuse(60, 5);
  await outcomes.send();
  assert.equal([await sent('refused'), await counted()], [1_050, 3_060]);
});

test('the address of an end client leaves the process sealed, and opens for its refusal alone, until Redis forgets the key', async () => {
  const outcomes = makeOutcomes({ redis, hasSpareRoom: () => true, metrics: makeMetrics('test'), random: Math.random });
  const ip = '203.0.113.9';
  const keyId = newId('key');
  const lookup = { workspaceId: newId('ws'), keyPart: `"apiKeyId":"${keyId}"` } as Lookup;
  outcomes.note(newId('team'), { ip }, { status: 'DISABLED', reason: 'DISABLED', body: '', lookup });
  await outcomes.send();
  const sent = (await lines()).filter((line) => line.includes(keyId));
  assert.not.ok(sent.some((line) => line.includes(ip)));
  const [refusal] = sent.map(carryOutcome).flatMap((one) => (one.kind === 'refusal' ? [one] : []));
  const { address, id } = refusal!;
  const open = async (bound: string) => (await openAddresses(redis, [address]))(address, bound);
  assert.equal([await open(id), await open('another')], [ip, '']);
  const { client } = redis.node(0);
  const name = keyspace.addressKey(Number(address.split('.')[0]));
  const restSeconds = await client.ttl(name);
  assert.ok(restSeconds > 24 * 3_600 && restSeconds <= 25 * 3_600);
  await client.del(name);
  assert.is(await open(id), '');
});

async function lines(): Promise<string[]> {
  const shards = [...Array(SHARDS).keys()];
  const read = shards.map((shard) => redis.node(shard).client.xrange(keyspace.outbox(shard), '-', '+'));
  return (await Promise.all(read)).flat().flatMap(([, [, text = '']]) => text.split('\n'));
}

/** How many lines of a kind there are: what was sent again is the same line. */
async function sent(mark: string): Promise<number> {
  return new Set((await lines()).filter((line) => line.startsWith(`{"x":"${mark}"`))).size;
}

/** The calls of all cells: of a cell that was sent again, its largest count. */
async function counted(): Promise<number> {
  const cells = new Map<string, number>();
  for (const line of await lines()) {
    const outcome = carryOutcome(line);
    if (outcome.kind !== 'count') continue;
    const { calls, json: _, ...rest } = outcome;
    const cell = JSON.stringify(rest);
    cells.set(cell, Math.max(calls, cells.get(cell) ?? 0));
  }
  return [...cells.values()].reduce((sum, calls) => sum + calls, 0);
}
