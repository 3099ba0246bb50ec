import { Redis } from 'ioredis';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace } from '../../shared/stores/keyspace.ts';

// What the users of sql/redis/users.conf may not. What they need, every test shows whose programs run as them.

const REFUSED = /NOPERM|can't run this command|can't access|No permissions|has no permissions/;

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
const trims = [['XTRIM', keyspace.outbox(0), 'MAXLEN', '0']];
const outbox = [['XDEL', keyspace.outbox(0), '1-1'], ...trims];
const balances = [['HSET', keyspace.billing(0, 'ws', 'm'), 'u', '0']];
const denied: Record<string, [url: string, string[][]]> = {
  verify: [
    process.env.TEST_VERIFY_REDIS_URL!,
    [...server, ...elsewhere, ...settings, ...throughScript, ...outbox, ['SCAN', '0']],
  ],
  api: [process.env.TEST_API_REDIS_URL!, [...server, ...elsewhere, ...trims]],
  consumer: [
    process.env.TEST_CONSUMER_REDIS_URL!,
    [...server, ...elsewhere, ...settings, ...throughScript, ['GET', keyspace.keyText(0, 'h')]],
  ],
  relay: [
    process.env.TEST_RELAY_REDIS_URL!,
    [...server, ...elsewhere, ...settings, ...throughScript, ...balances, ['GET', keyspace.token(0, 'h')]],
  ],
};

for (const [user, [url, commands]] of Object.entries(denied))
  test(`${user} may not change settings, the fence, another program’s entries or the server`, async () => {
    const client = new Redis(url);
    try {
      for (const [command = '', ...args] of commands) {
        const answer = await client.call(command, ...args).then(String, (error: Error) => error.message);
        assert.match(answer, REFUSED, `${command} ${args.join(' ')}`);
      }
    } finally {
      client.disconnect();
    }
  });
