import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { ALL_SHARDS, keyShard } from '../../../shared/values/key-text.ts';
import { connectRedis, type ShardedRedis } from '../../../shared/stores/redis.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { inTime, secondsUntil } from '../../../tests/helpers/in-time.ts';
import { eventually, makeWorld, type Answer, type World } from '../../../tests/helpers/world.ts';

// A verify process keeps what the script looked up and uses it for the next call: never after a change, and never for another
// question.

let world: World;
let workspaceId: string;
let customers: Customers;
let redis: ShardedRedis;
const test = suite('lookups');
test.before(async () => {
  world = await makeWorld(['verify']);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'lookups' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
  redis = connectRedis(world.env['REDIS_URL']!, makeLogger('test', 'error'), systemClock);
  await redis.connected(60_000);
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

type Key = { id: string; key: string; externalMeterId: string; representation: string; scopeId: string };
type Change = { what: string; before: string; after: string; change(key: Key): Promise<unknown> };

const patch = (path: string, fields: object) => must(200, world.call('patch', path, fields));
const ofKey = ({ id }: Key, fields: object) => patch(`/api/v1/workspace/${workspaceId}/api-key/${id}`, fields);
const ofWorkspace = (fields: object) => patch(`/api/v1/workspace/${workspaceId}`, fields);
const toBilling = async ({ externalMeterId }: Key, fields: object) =>
  patch(`/api/v1/customer-billing/${(await customers.billing(externalMeterId)).id}`, fields);

const changes: Change[] = [
  {
    what: 'a key is disabled',
    before: 'VALID',
    after: 'DISABLED',
    change: (key) => ofKey(key, { enabled: false }),
  },
  {
    what: 'a key is deleted',
    before: 'VALID',
    after: 'DELETED',
    change: ({ id }) => must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${id}`)),
  },
  {
    what: 'a key loses a scope',
    before: 'VALID',
    after: 'SCOPE_MISSING',
    change: (key) => ofKey(key, { scopes: [] }),
  },
  {
    what: 'a scope is deleted',
    before: 'VALID',
    after: 'SCOPE_MISSING',
    change: ({ scopeId }) => must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/scope/${scopeId}`)),
  },
  {
    what: 'a key gets a list of addresses',
    before: 'VALID',
    after: 'IP_NOT_ALLOWED',
    change: (key) => ofKey(key, { allowedIPs: ['192.0.2.0/24'] }),
  },
  {
    what: 'the workspace gets a list of addresses',
    before: 'VALID',
    after: 'IP_NOT_ALLOWED',
    change: () => ofWorkspace({ defaultAllowedIPs: ['192.0.2.0/24'] }),
  },
  {
    what: 'the workspace drops its list of addresses',
    before: 'IP_NOT_ALLOWED',
    after: 'VALID',
    change: () => ofWorkspace({ defaultAllowedIPs: [] }),
  },
  {
    what: 'a spend cap is set',
    before: 'VALID',
    after: 'SPEND_CAP_REACHED',
    change: (key) => toBilling(key, { spendCap: '0' }),
  },
  {
    what: 'a key gets an expiry and expires',
    before: 'VALID',
    after: 'EXPIRED',
    change: async (key) => {
      const expiresAt = await inTime(1_000, async (until) => {
        await ofKey(key, { expiresAt: until });
        assert.is(await answerTo(key), 'VALID');
        return until;
      });
      await sleep(expiresAt + 100 - Date.now());
    },
  },
  {
    what: 'a key is rotated',
    before: 'VALID',
    after: 'NOT_FOUND',
    change: ({ id }) => must(200, world.call('post', `/api/v1/workspace/${workspaceId}/api-key/${id}/rotate`)),
  },
  {
    what: "a rotated key's grace ends",
    before: 'VALID',
    after: 'NOT_FOUND',
    change: async (key) => {
      const path = `/api/v1/workspace/${workspaceId}/api-key/${key.id}/rotate`;
      let latest = key.key;
      const endsAt = await inTime(8_000, async (until) => {
        key.key = latest;
        const graceSeconds = secondsUntil(until);
        latest = (await must(200, world.call('post', path, { graceSeconds }))).body.apiKey.key;
        const endsAt = Date.now() + graceSeconds * 1_000;
        assert.is(await answerTo(key), 'VALID');
        return endsAt;
      });
      await sleep(endsAt + 100 - Date.now());
    },
  },
];

for (const { what, before, after, change } of changes) {
  test(`${what}: the next call is answered by it`, async () => {
    const key = await newKey();
    for (let i = 0; i < 2; i++) assert.is(await answerTo(key), before);
    await change(key);
    for (let i = 0; i < 2; i++) assert.is(await answerTo(key), after);
  });
}

test('a lookup never answers another question: other scopes, another team, a token of another workspace', async () => {
  const key = await newKey();
  const other = await world.newTeam();
  const limited = await world.newToken(world.team.id, ['key:verify'], [await world.newWorkspace(world.team.id)]);
  for (const token of [other.token, limited]) {
    await eventually('the token is known', async () => (await customers.verify({ key: '' }, { token })).status !== 401);
  }
  for (let i = 0; i < 2; i++) {
    assert.is(reasonIn(await verify(key)), 'VALID');
    assert.is(reasonIn(await verify(key, { create: true })), 'SCOPE_MISSING');
    assert.is(reasonIn(await verify(key, {}, other.token)), 'NOT_FOUND');
    assert.is(reasonIn(await verify(key, {}, limited)), 'NOT_FOUND');
  }
});

test('keys that change all the time are each answered as they are now, also when they share a shard', async () => {
  const keys = await Promise.all(Array.from({ length: 8 }, newKey));
  const flip = async (key: Key) => {
    for (let i = 0; i < 6; i++) {
      const enabled = i % 2 === 1;
      await ofKey(key, { enabled });
      assert.is(await answerTo(key), enabled ? 'VALID' : 'DISABLED');
    }
  };
  await Promise.all(keys.map(flip));
});

test('no lookup outlives an emptied shard, even if the shard counts as many writes again', async () => {
  const key = await newKey();
  assert.is(await answerTo(key), 'VALID');
  const shard = keyShard(key.key)!;
  const { client } = redis.node(shard);
  const writes = await client.hget(keyspace.meta(shard), 'writes');
  // As if the change had been made while Redis was unavailable.
  await world.sql`update api_keys set enabled = false where id = ${key.id}`;
  await client.flushdb();
  const owners = () => Promise.all(ALL_SHARDS.map((one) => client.hget(keyspace.meta(one), 'owner')));
  await eventually('all shards are open again', async () => (await owners()).every((owner) => owner !== null));
  await client.hset(keyspace.meta(shard), 'writes', writes!);
  assert.is(await answerTo(key), 'DISABLED');
});

test('a billing record that is gone from Redis makes a 503, and never counts as unused', async () => {
  const key = await newKey();
  const shard = keyShard(key.key)!;
  assert.is(reasonIn(await verify(key)), 'VALID');
  await redis.node(shard).client.del(keyspace.billing(shard, workspaceId, key.externalMeterId));
  const { status, body } = await verify(key);
  assert.is(status, 503);
  assert.is(body.error.code, 50305);
});

async function newKey(): Promise<Key> {
  const representation = `r${Math.random()}`;
  const path = `/api/v1/workspace/${workspaceId}/scope`;
  const scope = (await must(201, world.call('post', path, { name: representation, representation }))).body.scope;
  const externalMeterId = await customers.newMeter({ totalCredits: '1000' });
  const scopes = [{ representation, read: true }];
  return {
    ...(await customers.newKey({ externalMeterId, scopes })),
    externalMeterId,
    representation,
    scopeId: scope.id,
  };
}

function verify(key: Key, flags: object = {}, token = world.team.token, url = world.verify!.url) {
  const requestedScopes = [{ representation: key.representation, read: true, ...flags }];
  const body = { key: key.key, requestedScopes, ip: '198.51.100.1', billing: { usage: '0.5' } };
  return customers.verify(body, { token, url });
}

// The api and verify each keep lookups of their own.
async function answerTo(key: Key): Promise<string> {
  const [byVerify, byApi] = [
    reasonIn(await verify(key)),
    reasonIn(await verify(key, {}, world.team.token, world.api.url)),
  ];
  assert.is(byVerify, byApi);
  return byVerify;
}

function reasonIn({ status, body, text }: Answer): string {
  assert.is(status, 200, text);
  return body.reason ?? body.status;
}

test.run();
