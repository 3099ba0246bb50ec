import { once } from 'node:events';
import { connect } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { TURNS } from '../http/fair-turns.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { connectRedis } from '../../../shared/stores/redis.ts';
import { makeCustomers, must } from '../../../tests/helpers/customers.ts';
import { speak } from '../../../tests/helpers/raw-http.ts';
import {
  eventually,
  makeWorld,
  outputListeners,
  wireTo,
  type Started,
  type World,
} from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

// A failure on our side, or on the way to us, has an answer that says so.

let world: World;
const test = suite('failures');
test.before(async () => {
  world = await makeWorld();
});
test.after(() => world?.stop());

test('a body that does not arrive in time is a 408, and a request that takes too long a 503', async () => {
  const api = await world.start('api', { REQUEST_DEADLINE_MS: '300' });
  const head = `POST /api/v1/workspace HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${world.team.token}\r\n`;
  const slow = `${head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{`;
  const answer = await eventually('the deadline comes during the body', async () => {
    const { answers } = await speak(api.url, [slow]);
    // A busy machine may not have checked the token by then, for which it connects to Postgres the first time.
    return JSON.parse(answers[0]!.text).error.code === 50307 ? undefined : answers[0]!;
  });
  assert.is(JSON.parse(answer.text).error.code, 40801);
  assert.is(answer.headers.get('connection'), 'close');

  await world.sql.begin(async (tx) => {
    await tx`lock table workspaces in access exclusive mode`;
    const answer = await world.call('get', `${api.url}/api/v1/workspace`);
    assert.equal([answer.status, answer.body.error.code], [503, 50307]);
  });
});

test('while Postgres is unavailable, its operations are a 503', async () => {
  const wire = await wireTo(world.env.DATABASE_URL!);
  const api = await world.start('api', { DATABASE_URL: wire.url });
  await wire.cut();
  const answer = await world.call('get', `${api.url}/api/v1/workspace`);
  assert.equal([answer.status, answer.body.error.code], [503, 50302]);
});

test('while the books hang, a read of them ends at its deadline, and all other operations go on', async () => {
  const wire = await wireTo(world.env.CLICKHOUSE_URL!);
  const api = await world.start('api', { CLICKHOUSE_URL: wire.url, REQUEST_DEADLINE_MS: '3000' });
  wire.hang();
  const record = { workspaceId: await world.newWorkspace(world.team.id), externalMeterId: 'hung' };
  const { id } = (await world.call('post', '/api/v1/customer-billing', record)).body.billing;
  const reads = await Promise.all(Array.from({ length: TURNS.ofToken }, () => read()));
  assert.equal(new Set(reads.map(({ body }) => body.error?.code)), new Set([50307]));
  const codes: number[] = [];
  while (codes.length < 6 && codes.at(-1) !== 200) codes.push(await listWorkspaces());
  await wire.cut();
  // While the reads keep their token's turns, none of these is answered.
  assert.ok(codes.includes(200), codes.join(' '));

  async function listWorkspaces() {
    const { status, body } = await world.call('get', `${api.url}/api/v1/workspace`);
    return body.error?.code ?? status;
  }

  function read() {
    return world.call('get', `${api.url}/api/v1/usage/${id}`);
  }
});

test('a request whose commit is unknown at the deadline says so, and is stored whole or not at all', async () => {
  const api = await world.start('api', { REQUEST_DEADLINE_MS: '3000' });
  await world.sql.unsafe(`
    create function slow_commit() returns trigger language plpgsql as 'begin perform pg_sleep(5); return null; end';
    create constraint trigger slow_commit after insert on workspaces deferrable initially deferred
      for each row execute function slow_commit()`);
  const team = await world.newTeam();
  const answer = await eventually('the deadline comes during the commit', async () => {
    const { token } = team;
    const made = await world.call('post', `${api.url}/api/v1/workspace`, { name: 'slow' }, { token });
    // A busy machine may not have come so far, and has stored nothing.
    return made.body.error?.code === 50307 ? undefined : made;
  });
  assert.equal([answer.status, answer.body.error?.code], [503, 50310], answer.text);
  await world.sql`drop trigger slow_commit on workspaces`;
  await eventually('it is stored', async () => {
    const { body } = await world.call('get', '/api/v1/workspace', undefined, { token: team.token });
    return body.workspaces.length === 1;
  });
});

test('a change that Postgres ends in a deadlock is made again, and is stored once', async () => {
  const workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body.workspace.id;
  const body = { amount: '1', reason: 'r' };
  const pathOf = (id: string) => `/api/v1/customer-billing/${id}/adjustment`;
  let tries = 0;
  const { id, headers, answer } = await eventually('the two wait for each other when Postgres looks', async () => {
    const record = { workspaceId, externalMeterId: `deadlocked-${++tries}` };
    const { id } = (await must(201, world.call('post', '/api/v1/customer-billing', record))).body.billing;
    const headers = { 'Idempotency-Key': record.externalMeterId };
    const calling = await world.sql.begin(async (tx) => {
      // The other transaction of the two looks for a deadlock, once it has waited for a second.
      await tx`set local deadlock_timeout = '50s'`;
      await tx`select from billing_records where id = ${id} for update`;
      const call = world.call('post', pathOf(id), body, { headers });
      await eventually('it has the workspace, and waits for the record', async () => {
        const waiting = await world.sql`
          select from pg_stat_activity where wait_event_type = 'Lock' and query like '%last_adjustment as last%'`;
        return waiting.length > 0;
      });
      await tx`select from workspaces where id = ${workspaceId} for update`;
      return { call };
    });
    const answer = await calling.call;
    // On a busy machine it may have looked too early, which it does once, and waited until its time was over.
    return answer.status === 503 ? undefined : { id, headers, answer };
  });
  assert.equal([answer.status, answer.body.adjustment?.number], [201, 1], answer.text);
  const stored = await world.sql`select from adjustments where billing_id = ${id}`;
  assert.is(stored.count, 1);
  assert.equal((await world.call('post', pathOf(id), body, { headers })).body, answer.body);
});

test('a repetition that arrives while the first request runs is a 409 that says when to try again', async () => {
  await world.sql.begin(async (tx) => {
    await tx`lock table idempotency_keys in exclusive mode`;
    const headers = { 'Idempotency-Key': 'busy' };
    const answer = await world.call('post', '/api/v1/workspace', { name: 'w' }, { headers });
    assert.equal([answer.status, answer.body.error.code, answer.headers.get('retry-after')], [409, 40905, '1']);
  });
});

test('an internal fault is a 500 that tells nothing about it', async () => {
  const team = await world.newTeam();
  const sign = () => world.call('post', '/api/v1/jwt', { payload: {} }, { token: team.token });
  assert.is((await sign()).status, 201);
  await world.sql`update signing_keys set private_encrypted = '\\x00' where team_id = ${team.id}`;
  const answer = await sign();
  assert.equal([answer.status, answer.body.error.code], [500, 50001]);
  assert.equal(answer.body.error.message, 'Something went wrong on our side; it was logged with the request id.');
});

test('clients that leave before their answer cost no more than one line of the log each, and no stack', async () => {
  let output = '';
  const listen = (text: string) => void (output += text);
  outputListeners.add(listen);
  try {
    const { port } = new URL(world.api.url);
    for (let i = 0; i < 20; i++) {
      const socket = connect(Number(port), '127.0.0.1');
      await once(socket, 'connect');
      // Several at once: the first answers are on their way when the connection ends.
      const requests = Array.from(
        { length: 10 },
        () => `GET /gone HTTP/1.1\r\nHost: a\r\nX-Request-Id: gone-${i}\r\n\r\n`,
      );
      socket.write(requests.join(''), () => socket.resetAndDestroy());
    }
    await world.call('get', '/api/v1/workspace', undefined, { headers: { 'X-Request-Id': 'last' } });
    await eventually('the log has all', async () => output.includes('"requestId":"last"'));
    assert.not.match(output, /EPIPE|ECONNRESET|\n *at /);
  } finally {
    outputListeners.delete(listen);
  }
});

test('a change that is stored but not in force says so, and comes into force by itself', async () => {
  const { make, made } = await cutOffAtCommit('stays away');
  const answer = await made;
  assert.equal([answer.status, answer.body.error.code], [503, 50304]);
  const again = await make(world.api);
  assert.is(again.status, 201, again.text);
  const { status } = (await world.call('post', VERIFY_PATH, { key: again.body.apiKey.key })).body;
  assert.is(status, 'VALID');
});

test('a change is in force with its answer if Redis comes back within seconds of the commit', async () => {
  let output = '';
  const listen = (text: string) => (output += text);
  outputListeners.add(listen);
  try {
    let tries = 0;
    const answer = await eventually('Redis is back within seconds', async () => {
      output = '';
      const { wire, made } = await cutOffAtCommit(`comes back ${++tries}`);
      await eventually('it was tried in vain', async () => output.includes('bringing a change into force failed'));
      await wire.mend();
      const answer = await made;
      await wire.cut();
      // On a busy machine it may have come back too late.
      return answer.body.error?.code === 50304 ? undefined : answer;
    });
    assert.is(answer.status, 201, answer.text);
    const { status } = (await world.call('post', VERIFY_PATH, { key: answer.body.apiKey.key })).body;
    assert.is(status, 'VALID');
  } finally {
    outputListeners.delete(listen);
  }
});

test('a verification that cannot be decided or recorded is a 503', async () => {
  const wire = await wireTo(world.env.REDIS_URL!);
  const verify = await world.start('verify', { REDIS_URL: wire.url, OUTBOX_MAX_ENTRIES: '1' });
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  const customers = makeCustomers(world, workspace.id);
  const { key } = await customers.meteredKey('100');
  const codeNow = async () => (await customers.verify({ key }, { url: verify.url })).body.error?.code;
  await eventually('the outbox is full', async () => (await codeNow()) === 50306);
  // The access token's record is cached for half a second: within it, the verification itself fails.
  await eventually('it is undecided', async () => {
    await wire.mend().catch(() => {});
    await eventually('Redis is back', async () => (await codeNow()) === 50306);
    await wire.cut();
    return (await codeNow()) === 50305;
  });
});

test('a change that another one overtakes is not mistaken for one of an older Postgres', async () => {
  const redis = connectRedis(world.env['REDIS_URL']!, makeLogger('test', 'error'), systemClock);
  await redis.connected(60_000);
  const overtaken = await world.sql.begin(async (tx) => {
    // Holds the first change between its number and its commit.
    await tx`lock table audit_log in exclusive mode`;
    const answer = world.call('post', '/api/v1/workspace', { name: 'overtaken' });
    await eventually('it waits', async () => (await world.sql`select from pg_locks where not granted`).length > 0);
    const [other] = await world.sql<[{ id: number }]>`
      insert into changes (kind, entity_id, applied_at) values ('workspace', 'ws_gone', now()) returning id`;
    for (const shard of ALL_SHARDS) await redis.node(shard).client.hset(keyspace.meta(shard), 'change', other.id);
    return { answer };
  });
  await redis.close();
  const { status, text } = await overtaken.answer;
  assert.is(status, 201, text);
});

test.run();

/** Has an api make a key of this name, and cuts it off from Redis between the commit and the apply. */
async function cutOffAtCommit(name: string) {
  const wire = await wireTo(world.env.REDIS_URL!);
  const api = await world.start('api', { REDIS_URL: wire.url });
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  const make = ({ url }: Started) =>
    world.call(
      'post',
      `${url}/api/v1/api-key`,
      { name, workspaceId: workspace.id },
      { headers: { 'Idempotency-Key': name } },
    );
  // Holds the commit until the test releases it.
  await world.sql.unsafe(`
    create or replace function wait_at_commit() returns trigger language plpgsql as
      'begin perform pg_advisory_xact_lock(1); return null; end';
    drop trigger if exists wait_at_commit on api_keys;
    create constraint trigger wait_at_commit after insert on api_keys deferrable initially deferred
      for each row when (new.name = '${name}') execute function wait_at_commit()`);
  const made = await world.sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(1)`;
    const answer = make(api);
    await eventually('the commit waits', async () => {
      const [row] = await world.sql`select from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())`;
      return row;
    });
    await wire.cut();
    return { answer };
  });
  return { wire, make, made: made.answer };
}
