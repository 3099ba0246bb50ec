import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { makeOutboxReader } from '../../shared/events/outbox-reader.ts';
import { outboxState } from '../../shared/events/outbox-watch.ts';
import { connectRedis, type ShardedRedis } from '../../shared/stores/redis.ts';
import { makeCertificate } from '../helpers/certificate.ts';
import { makeCustomers } from '../helpers/customers.ts';
import { eventually, spawnWorld, once } from '../helpers/world.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { makeOwnRedis, untilOpen } from '../helpers/own-redis.ts';
import { redisRefusals, setRedisUsers } from '../helpers/redis-users.ts';

// Every program on a Redis with TLS, as its own user of sql/redis/users.conf.
const folder = join(process.env.TEST_FOLDER ?? '', 'tls');
const users = ['verify', 'api', 'consumer', 'relay'] as const;
type User = (typeof users)[number];
const passwordOf = (user: User) => `password of ${user}`.replaceAll(' ', '-');
let tlsPort: number;
const clients: Redis[] = [];
let sharded: ShardedRedis | undefined;

mkdirSync(folder, { recursive: true });
const tls = makeCertificate(folder, 'redis');
[tlsPort = 0] = await freePorts(1);
const redis = await makeOwnRedis('users', {
  'tls-port': tlsPort,
  'tls-cert-file': tls.certificate,
  'tls-key-file': tls.key,
  'tls-auth-clients': 'no',
  'tls-ca-cert-file': tls.certificate,
});
await setRedisUsers(redis.admin, (name) => passwordOf(name.replace('keytally_', '') as User));
await redis.admin.call('ACL', 'LOG', 'RESET');
const TLS = { NODE_EXTRA_CA_CERTS: tls.certificate };
const world = await spawnWorld(['api'], { REDIS_URL: urlOf('api'), ...TLS });
world.verify = await world.start('verify', { REDIS_URL: urlOf('verify') });
world.consumer = await world.start('consumer', { REDIS_URL: urlOf('consumer') });
test.after(async () => {
  for (const client of clients) client.disconnect();
  await Promise.all([sharded?.close(), world?.stop()]);
});

test('each program may do everything it needs, also after Redis was emptied', async () => {
  const { id } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body.workspace;
  const customers = makeCustomers(world, id);
  const key = await customers.meteredKey('100');
  const body = { key: key.key, billing: { usage: '1' } };
  const spend = async () => (await customers.verify(body, { headers: once() })).body;
  assert.is((await spend()).status, 'VALID');
  await eventually('usage', async () => (await customers.usage(key.meter)) === '1');
  await redis.admin.flushall();
  await untilOpen(redis, world.api.url, world.verify!.url);
  assert.is((await spend()).status, 'VALID');
  await eventually('the balance', async () => (await customers.billing(key.meter)).usedCredits === '2');
  // An operator rebuilds it with the rights of the api.
  await promisify(execFile)(process.execPath, ['apps/api/commands/rebuild.ts'], { env: world.env });
  assert.equal(await redisRefusals(redis.admin), []);
});

test('a relay may read, take over, acknowledge and set aside entries', async () => {
  await world.consumer!.stop();
  const log = makeLogger('test', 'silent');
  // This process does not trust the certificate, so it connects without TLS.
  sharded = connectRedis(urlOf('relay', 'redis', Number(new URL(redis.url).port)), log, systemClock);
  await sharded.connected(60_000);
  const metrics = makeMetrics('test');
  await redis.admin.xadd(keyspace.outbox(0), '*', 'e', 'no event');
  const source = makeOutboxReader({ node: sharded.node(0), shards: [0, 1], name: 'relay-1', metrics, log });
  const stop = new AbortController();
  await eventually('it is set aside', async () => {
    const taken = await source.read(stop.signal);
    await taken?.acknowledge();
    return (await redis.admin.xlen(keyspace.dead(0))) === 1;
  });
  assert.is((await outboxState(sharded)).events >= 0, true);
  assert.equal(await redisRefusals(redis.admin), []);
});

test('no program may change settings, the fence, another program’s entries or the server', async () => {
  const server = [['FLUSHALL'], ['CONFIG', 'GET', '*'], ['KEYS', '*'], ['ACL', 'LIST'], ['SHUTDOWN']];
  const elsewhere = [
    ['SET', 'other', '1'],
    ['GET', 'other'],
    ['PUBLISH', 'channel', 'text'],
    ['REPLICAOF', 'NO', 'ONE'],
  ];
  const settings = [
    ['SET', keyspace.keyText(0, 'hash'), 'forged'],
    ['SET', keyspace.token(0, 'hash'), 'forged'],
    ['HSET', keyspace.workspace(0, 'ws'), 'd', 'forged'],
    ['HSET', keyspace.meta(0), 'owner', 'forged'],
    ['UNLINK', keyspace.keyText(0, 'hash')],
    ['DEL', keyspace.outbox(0)],
  ];
  const throughScript = settings.map(([command = '', name = '', ...rest]) => {
    const args = rest.map((arg) => `, '${arg}'`).join('');
    return ['EVAL', `return redis.call('${command}', KEYS[1]${args})`, '1', name];
  });
  const balances = [['HSET', keyspace.billing(0, 'ws', 'm'), 'u', '0']];
  const outbox = [
    ['XDEL', keyspace.outbox(0), '1-1'],
    ['XTRIM', keyspace.outbox(0), 'MAXLEN', '0'],
  ];
  const denied: Record<User, string[][]> = {
    verify: [...server, ...elsewhere, ...settings, ...throughScript, ...outbox, ['SCAN', '0']],
    api: [...server, ...elsewhere, ...outbox],
    consumer: [...server, ...elsewhere, ...settings, ...throughScript, ['GET', keyspace.keyText(0, 'h')]],
    relay: [...server, ...elsewhere, ...settings, ...throughScript, ...balances, ['GET', keyspace.token(0, 'h')]],
  };
  for (const user of users) {
    const client = new Redis(urlOf(user), { tls: { ca: readFileSync(tls.certificate) } });
    clients.push(client);
    for (const [command = '', ...args] of denied[user]) {
      const answer = await client.call(command, ...args).then(String, (error: Error) => error.message);
      assert.match(
        answer,
        /NOPERM|can't run this command|can't access|No permissions|has no permissions/,
        `${user}: ${command} ${args.join(' ')}`,
      );
    }
  }
});

function urlOf(user: User, scheme = 'rediss', port = tlsPort): string {
  return `${scheme}://keytally_${user}:${passwordOf(user)}@localhost:${port}`;
}
