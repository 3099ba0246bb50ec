import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyShard } from '../../shared/values/key-text.ts';
import { makeCustomers, must, type Customers, type TestKey } from '../helpers/customers.ts';
import { eventually, spawnWorld, type Answer, type ProcessWorld } from '../helpers/world.ts';
import {
  isInSync,
  isPrimary,
  kill,
  pairOf,
  restart,
  startRedisCluster,
  takeOver,
  until,
  type Member,
} from '../helpers/redis-cluster.ts';

// A cluster whose servers freeze, lose their replicas, or come back older than they were left.

const folder = mkdtempSync(join(tmpdir(), 'keytally-cluster-faults-'));
const test = suite('redis cluster faults');
let members: Member[] = [];
let world: ProcessWorld;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  members = await startRedisCluster(folder);
  const seeds = members.map((member) => member.address).join(',');
  // What is answered here may be on one server alone: that is how one of them can come back older.
  const settings = { REDIS_URL: `redis+cluster://${seeds}`, REDIS_MIN_REPLICAS: '0', VERIFY_DEADLINE_MS: '250' };
  world = await spawnWorld(['verify', 'consumer'], settings);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'faults' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await world?.stop();
  for (const member of members) member.client.disconnect();
  await Promise.all(members.map(kill));
  rmSync(folder, { recursive: true, force: true });
});

test('a primary that is demoted, and promoted again with older data, is fenced like a new server', async () => {
  const { id, key } = await customers.newKey();
  const { primary, replica } = await pairOf(members, keyShard(key)!);
  const runId = await runIdOf(primary);

  // The replica takes over, and the primary may not follow it: it keeps what it had, its fence included.
  await replica.client.call('ACL', 'SETUSER', 'default', '-sync', '-psync', '-replconf');
  await takeOver(replica);
  await until(async () => !(await isPrimary(primary)));
  const path = `/api/v1/workspace/${workspaceId}/api-key/${id}`;
  const disable = async () => (await world.call('patch', path, { enabled: false })).status === 200;
  await eventually('the key is disabled where it lives now', disable);
  await without(replica, async () => {
    await takeOver(primary);
    assert.is(await runIdOf(primary), runId);
    const decided = async () => {
      const answer = await verify(key);
      assert.ok(answer.status === 503 || answer.body.status === 'DISABLED', answer.text);
      return answer.status === 200;
    };
    await eventually('the key is disabled', decided);
  });
});

test('a primary without its replica refuses hundreds of calls at once, and its connection stays free', async () => {
  const strict = await world.start('verify', { REDIS_MIN_REPLICAS: '1' });
  const { key } = await customers.newKey();
  const { replica } = await pairOf(members, keyShard(key)!);
  await eventually('it serves', async () => (await verify(key, '0', strict)).body.status === 'VALID');
  await without(replica, async () => {
    const answers = await Promise.all(Array.from({ length: 400 }, () => verify(key, '0', strict)));
    for (const answer of answers) assert.is(answer.status, 503, answer.text);
    // If each call waited for a replica in turn, they would block the connection for 80 s.
    await eventually('Redis answers', async () => (await fetch(`${strict.url}/readyz`)).ok);
  });
  await eventually('it serves again', async () => (await verify(key, '0', strict)).body.status === 'VALID');
  await strict.stop();
});

test('a frozen server ends no program, and shards on the others are served', async () => {
  const frozenKey = await customers.meteredKey('100');
  const { primary: frozen, replica: successor } = await pairOf(members, keyShard(frozenKey.key)!);
  let other: TestKey;
  do other = await customers.meteredKey('100');
  while ((await pairOf(members, keyShard(other.key)!)).primary === frozen);
  process.kill(frozen.running.pid, 'SIGSTOP');
  // Longer than it takes to notice a silent connection, and to replace the server.
  await until(() => isPrimary(successor));
  await sleep(3_000);
  await eventually('others are served', async () => (await spend(other.key)).body.status === 'VALID');
  const used = async () => (await customers.billing(other.meter)).usedCredits;
  await eventually('usage arrives in the books', async () => (await customers.usage(other.meter)) === (await used()));
  const path = `/api/v1/workspace/${workspaceId}/api-key/${other.id}`;
  await eventually('changes pass', async () => (await world.call('patch', path, { name: 'n' })).status === 200);
  process.kill(frozen.running.pid, 'SIGCONT');
  await until(() => isInSync(frozen));
  await eventually('all is served', async () => (await spend(frozenKey.key)).body.status === 'VALID');
  for (const { process: one } of [world.api, world.verify!, world.consumer!]) {
    assert.equal([one.exitCode, one.signalCode], [null, null]);
  }
});

/** Does something while a server is down, and starts it again as a replica. */
async function without(member: Member, work: () => Promise<void>): Promise<void> {
  await kill(member);
  try {
    await work();
  } finally {
    await restart(member);
    await until(() => isInSync(member));
  }
}

async function runIdOf(member: Member): Promise<string> {
  return /^run_id:(\w+)/m.exec(await member.client.info('server'))![1]!;
}

function verify(key: string, usage = '0', { url } = world.verify!): Promise<Answer> {
  return customers.verify({ key, billing: { usage } }, { url });
}

function spend(key: string): Promise<Answer> {
  return verify(key, '1');
}

test.run();
