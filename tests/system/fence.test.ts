import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../helpers/customers.ts';
import { startCoreClock } from '../helpers/core-clock.ts';
import { untilOpen, untilWritten } from '../helpers/own-redis.ts';
import { decided, eventually, spawnWorld, once, type Answer, type ProcessWorld } from '../helpers/world.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { start, untilReady, type Program, type Started } from '../../apps/stack/process/program.ts';
import { ensureRedis, redisProgram } from '../../apps/stack/servers/redis.ts';

// What happens to verification when its Redis restarts, is emptied, comes back older, freezes or becomes unavailable. This
// file has a Redis of its own for that.

const SERVES_WITHIN_MS = 3_000;
const TRIES = 5;
const folder = mkdtempSync(join(tmpdir(), 'keytally-fence-'));
const test = suite('the fence');
let program: Program;
let running: Started;
let admin: Redis;
let world: ProcessWorld;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  const [port = 0] = await freePorts(1);
  const settings = { appendfsync: 'no' };
  program = redisProgram({ binary: await ensureRedis(() => {}), folder: join(folder, 'redis'), port, settings });
  await startRedis();
  admin = new Redis(port, '127.0.0.1');
  admin.on('error', () => {});
  world = await spawnWorld(['verify', 'consumer'], {
    REDIS_URL: `redis://127.0.0.1:${port}`,
    VERIFY_DEADLINE_MS: '250',
  });
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'fence' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
// The api opens shards one after the other: one key may be served while another one's shard is still closed.
test.before.each(everyShardIsOpen);
test.after(async () => {
  await world?.stop();
  admin?.disconnect();
  if (running) process.kill(running.pid, 'SIGKILL');
  await running?.ended;
  rmSync(folder, { recursive: true, force: true });
});

test('a killed Redis that starts again serves within 3 s, with everything it had', async () => {
  const { key, meter } = await customers.meteredKey('10');
  await spend(key, '1.5');
  let took = Infinity;
  // A busy machine may take longer now and then.
  for (let tries = 0; tries < TRIES && took >= SERVES_WITHIN_MS; tries++) {
    await everyShardIsOpen();
    const during = watch(key);
    await killRedis();
    await eventually('the loss is noticed', async () => during.seen().has(503));
    assert.is((await verify(key)).status, 503);
    await startRedis();
    const programs = [world.api.process.pid!, world.verify!.process.pid!, running.pid];
    const elapsedMs = startCoreClock(programs);
    await untilValid(key);
    took = elapsedMs();
    assert.equal(await during.statuses(), ['503', 'VALID']);
  }
  assert.ok(took < SERVES_WITHIN_MS, `reopened after ${Math.round(took)} ms`);
  assert.is((await spend(key, '1')).body.billing.usedCredits, '2.5');
  assert.is((await customers.billing(meter)).usedCredits, '2.5');
});

test('verify answers 503, never INVALID, until an emptied Redis has its settings and balances back', async () => {
  const { key, meter } = await customers.meteredKey('10');
  await spend(key, '3.25');
  await spend(key, '0.5');
  await eventually('the books have it', async () => (await customers.usage(meter)) === '3.75');
  const during = watch(key);
  await admin.flushall();
  await eventually('the loss is noticed', async () => during.seen().has(503));
  await untilValid(key);
  assert.equal(await during.statuses(), ['503', 'VALID']);
  assert.is((await customers.billing(meter)).usedCredits, '3.75');
  assert.is((await spend(key, '6.25')).body.billing.usedCredits, '10');
  assert.is((await spend(key, '0.000001')).body.status, 'USAGE_LIMITED');
});

test('nothing disabled, rotated or revoked comes back with a Redis that is older', async () => {
  const disabled = await customers.meteredKey('10');
  const rotated = await customers.meteredKey('10');
  const revoked = (await world.call('post', '/api/v1/access-token', { name: 'gateway', permissions: ['key:verify'] }))
    .body.accessToken;
  assert.is((await answerTo(disabled.key, { token: revoked.token })).body.status, 'VALID');
  await stopRedis();
  const old = join(folder, 'old');
  cpSync(join(folder, 'redis'), old, { recursive: true });
  await startRedis();
  await everyShardIsOpen();

  const path = `/api/v1/workspace/${workspaceId}/api-key`;
  await must(200, world.call('patch', `${path}/${disabled.id}`, { enabled: false }));
  const fresh = (await must(200, world.call('post', `${path}/${rotated.id}/rotate`))).body.apiKey.key as string;
  await must(200, world.call('delete', `/api/v1/access-token/${revoked.id}`));
  const later = await customers.meteredKey('10');
  assert.is((await answerTo(later.key)).body.status, 'VALID');

  await killRedis();
  rmSync(join(folder, 'redis'), { recursive: true });
  cpSync(old, join(folder, 'redis'), { recursive: true });
  await startRedis();
  await everyShardIsOpen();
  assert.is((await answerTo(fresh)).body.status, 'VALID');
  assert.is((await answerTo(disabled.key)).body.status, 'DISABLED');
  assert.is((await answerTo(rotated.key)).body.status, 'INVALID');
  assert.is((await answerTo(later.key)).body.status, 'VALID');
  assert.is((await answerTo(fresh, { token: revoked.token })).status, 401);
});

test('calls that a frozen Redis kept waiting get 503 and are never debited', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  await spend(key, '1');
  process.kill(running.pid, 'SIGSTOP');
  const answers = await Promise.all(Array.from({ length: 100 }, () => verify(key, { usage: '1' })));
  for (const answer of answers) {
    assert.is(answer.status, 503, answer.text);
    assert.ok(answer.headers.get('retry-after'));
  }
  process.kill(running.pid, 'SIGCONT');
  await untilValid(key);
  assert.is((await customers.billing(meter)).usedCredits, '1');
});

test('without Redis the api refuses a change before it stores anything, and still serves reads', async () => {
  const { id, meter } = await customers.meteredKey('10');
  const path = `/api/v1/workspace/${workspaceId}/api-key/${id}`;
  await killRedis();
  const refused = await world.call('patch', path, { name: 'changed' });
  assert.is(refused.status, 503, refused.text);
  assert.is(refused.body.error.code, 50301);
  assert.is((await must(200, world.call('get', path))).body.apiKey.name, 'k');
  await must(200, world.call('get', `/api/v1/customer-billing?workspaceId=${workspaceId}&externalMeterId=${meter}`));
  await startRedis();
  await eventually(
    'changes pass again',
    async () => (await world.call('patch', path, { name: 'changed' })).status === 200,
  );
});

test('the sweeper brings a change into force whose process died before it did', async () => {
  const { key, id } = await customers.meteredKey('10');
  await world.sql`update api_keys set enabled = false, version = version + 1 where id = ${id}`;
  assert.is((await answerTo(key)).body.status, 'VALID');
  await world.sql`insert into changes (kind, entity_id, shard) select 'key', id, shard from api_keys where id = ${id}`;
  await eventually('the sweeper has applied it', async () => (await verify(key)).body.status === 'DISABLED');
});

test('checkpoints follow the applied changes, so that a restart repeats few', async () => {
  await customers.newKey();
  const [row] = await world.sql<{ tx: number }[]>`select max(tx::text::bigint) as tx from changes`;
  const checkpoint = async (shard: string) => Number(await admin.hget(`{${shard}}:meta`, 'checkpoint'));
  await eventually(
    'checkpoints moved',
    async () => (await checkpoint('00')) > row!.tx && (await checkpoint('63')) > row!.tx,
  );
});

type Options = { token?: string; usage?: string; headers?: Record<string, string> };

function verify(key: string, { token = world.team.token, usage = '0', headers = {} }: Options = {}): Promise<Answer> {
  return customers.verify({ key, billing: { usage } }, { token, headers });
}

function answerTo(key: string, options: Options = {}): Promise<Answer> {
  return decided(verify(key, { ...options, headers: once() }));
}

function spend(key: string, usage: string): Promise<Answer> {
  return answerTo(key, { usage });
}

function untilValid(key: string): Promise<unknown> {
  return eventually('verified again', async () => (await verify(key)).body.status === 'VALID');
}

/** Verifies a key again and again in the background, until one more call is VALID; gives every status that was seen. */
function watch(key: string) {
  const seen = new Set<string | number>();
  let stopped = false;
  const done = (async () => {
    for (let last: string | number = ''; !stopped || last !== 'VALID'; await sleep(5)) {
      const answer = await verify(key);
      last = answer.status === 200 ? (answer.body.status as string) : answer.status;
      seen.add(last);
    }
  })();
  return {
    seen: () => seen,
    async statuses() {
      stopped = true;
      await done;
      return [...seen].map(String).toSorted();
    },
  };
}

async function startRedis(): Promise<void> {
  const log = join(folder, 'redis.log');
  running = await start(program, log);
  await untilReady(program, running, log);
}

async function killRedis(): Promise<void> {
  await untilWritten(admin);
  process.kill(running.pid, 'SIGKILL');
  await running.ended;
}

async function stopRedis(): Promise<void> {
  process.kill(running.pid, 'SIGTERM');
  await running.ended;
}

test.run();

function everyShardIsOpen(): Promise<void> {
  return untilOpen({ admin }, world.api.url, world.verify!.url);
}
