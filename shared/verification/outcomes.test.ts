import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connectTestRedis, eventually } from '../../tests/helpers/world.ts';
import { carryOutcome } from '../events/outcome.ts';
import { makeLogger } from '../runtime/log.ts';
import { makeMetrics } from '../runtime/metrics.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { newId } from '../values/ids.ts';
import { SHARDS } from '../values/key-text.ts';
import type { Decision } from './decision.ts';
import type { Lookup } from './lookup-cache.ts';
import { startOutcomes } from './outcomes.ts';

const test = suite('outcomes of a process');
let redis: ShardedRedis;
test.before(async () => void (redis = await connectTestRedis()));
test.after(() => redis?.close());

test('a process keeps at most 1,000 refusals of a second one by one, ten of a key, and counts them all', async () => {
  let hasRoom = false;
  const log = makeLogger('test', 'silent');
  const outcomes = startOutcomes({
    redis,
    hasSpareRoom: () => hasRoom,
    metrics: makeMetrics('test'),
    log,
    random: Math.random,
  });
  const [teamId, workspaceId] = [newId('team'), newId('ws')];
  const refused = (key: number) => {
    const lookup = { workspaceId, keyPart: `"apiKeyId":"key_${key}"` } as Lookup;
    outcomes.note(teamId, undefined, { status: 'DISABLED', reason: 'DISABLED', body: '', lookup } satisfies Decision);
  };
  // Nothing can be told yet, so all of it waits as what comes in a second does.
  for (let i = 0; i < 3_000; i++) refused(i % 300);
  hasRoom = true;
  await eventually('all are counted', async () => (await counted()) === 3_000);
  for (let i = 0; i < 60; i++) refused(i % 5);
  // Which tells all that is left.
  await outcomes.stop();
  assert.equal([await told('refused'), await counted()], [1_050, 3_060]);
});

async function lines(): Promise<string[]> {
  const shards = [...Array(SHARDS).keys()];
  const read = shards.map((shard) => redis.node(shard).client.xrange(keyspace.outbox(shard), '-', '+'));
  return (await Promise.all(read)).flat().flatMap(([, [, text = '']]) => text.split('\n'));
}

/** How many lines of a kind there are: what was told again is the same line. */
async function told(mark: string): Promise<number> {
  return new Set((await lines()).filter((line) => line.startsWith(`{"x":"${mark}"`))).size;
}

/** The calls of all cells: of a cell that was told again, its largest count. */
async function counted(): Promise<number> {
  const cells = new Map<string, number>();
  for (const line of await lines()) {
    const { kind, row } = carryOutcome(line);
    if (kind !== 'count') continue;
    const [cell, calls] = [JSON.stringify(row.slice(0, -1)), Number(row.at(-1))];
    cells.set(cell, Math.max(calls, cells.get(cell) ?? 0));
  }
  return [...cells.values()].reduce((sum, calls) => sum + calls, 0);
}

test.run();
