import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { connectRedis, type ShardedRedis } from '../../../shared/stores/redis.ts';
import { makeVerifyBatch } from '../../../shared/verification/batch.ts';
import { makeHoldKeys } from '../../../shared/verification/hold-keys.ts';
import { makeVerifier, type VerifyCall } from '../../../shared/verification/verifier.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../../tests/helpers/world.ts';

// One team calls as much as it can, with calls that cost Redis most; another one calls beside it. Each test makes all calls
// in one turn of the event loop, so what is decided before what does not depend on how fast the machine is.

type Team = { id: string; token: string };
let world: World;
let redis: ShardedRedis;
let hostile: (number: number) => VerifyCall;
let good: () => VerifyCall;
const test = suite('a hostile team beside a good one');
test.before(async () => {
  world = await makeWorld();
  redis = connectRedis(world.env['REDIS_URL']!, makeLogger('test', 'error'), systemClock);
  await redis.connected(60_000);
  [hostile, good] = [await hostileCalls(world.team), await plainCalls(await world.newTeam())];
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

test('a few calls beside hundreds of costly ones of another team are decided right after those that are under way', async () => {
  const { order, run } = noteOrder(verifierOf());
  await Promise.all([...many(400, (i) => run('hostile', hostile(i))), ...many(5, () => run('good', good()))]);
  const before = order.slice(0, order.lastIndexOf('good')).filter((team) => team === 'hostile').length;
  assert.ok(before < 100, `${before} of 400 hostile calls were decided before the last of 5 good ones`);
});

test('while two teams wait, as much Redis time is spent on the one as on the other, whoever calls more', async () => {
  const { order, run } = noteOrder(verifierOf());
  const beside = (i: number) => (i % 4 === 3 ? run('good', good()) : run('hostile', hostile(i)));
  await Promise.all(many(2_000, beside));
  const decided = order.slice(0, order.lastIndexOf('good')).filter((team) => team === 'hostile').length;
  assert.ok(decided < 375, `${decided} of 1,500 hostile calls were decided before the last of 500 good ones`);
});

test('at VERIFY_MAX_WAITING the team that has more than its share is refused, and the other one still gets in', async () => {
  const { verify, hasRoom } = verifierOf({ VERIFY_MAX_WAITING: 8 });
  const answer = (call: VerifyCall) =>
    verify(call).then(
      ({ status }) => status,
      (error: unknown) => error,
    );
  const answers = [...many(20, (i) => answer(hostile(i))), ...many(4, () => answer(good()))];
  assert.ok(!hasRoom(hostile(0).caller.teamId) && hasRoom(), 'while they are decided');
  const decided = await Promise.all(answers);
  assert.equal(decided.slice(20), ['VALID', 'VALID', 'VALID', 'VALID']);
  assert.equal(decided.slice(0, 8), Array(8).fill('VALID'));
  for (const error of decided.slice(8, 20)) {
    assert.instance(error, ApiError);
    const { errorName, headers } = error as ApiError;
    assert.equal([errorName, headers['Retry-After']], ['overloaded', '1']);
  }
  assert.ok(hasRoom(hostile(0).caller.teamId));
});

test('a call that comes right after a batch is decided amid it: a batch takes turns with all others, of its own team too', async () => {
  const { order, run } = noteOrder(verifierOf());
  const { caller, body, clientAddress } = good();
  const logFailure = (error: Error) => assert.unreachable(error.message);
  const verifyBatch = makeVerifyBatch({
    verify: (call) => run('batch', call),
    countCall: () => {},
    logFailure,
    clock: systemClock,
  });
  const batch = { caller, clientAddress, requestId: 'batch', header: () => undefined };
  const deciding = verifyBatch({ ...batch, verifications: many(100, () => ({ ...body })) });
  await new Promise((resolve) => setImmediate(resolve));
  await run('single', good());
  const before = order.indexOf('single');
  await deciding;
  assert.is(order.length, 101);
  assert.ok(before < 50, `${before} of 100 were decided before it`);
});

test.run();

function verifierOf(settings: { VERIFY_MAX_WAITING?: number } = {}) {
  const config = { VERIFY_DEADLINE_MS: 60_000, VERIFY_MAX_WAITING: 4_000, ...settings };
  const holdKeys = makeHoldKeys(redis, config.VERIFY_DEADLINE_MS);
  const metrics = makeMetrics('verify');
  return makeVerifier({
    redis,
    holdKeys,
    outboxFull: () => false,
    requireMemory: () => {},
    witness: () => {},
    noteOutcome: () => {},
    config,
    metrics,
  });
}

function noteOrder({ verify }: ReturnType<typeof verifierOf>) {
  const order: string[] = [];
  return {
    order,
    async run(team: string, call: VerifyCall) {
      const decision = await verify(call);
      assert.is(decision.status, 'VALID');
      order.push(team);
      return decision;
    },
  };
}

/** Verifications of a key with 100 scopes, each of others of them, so that each has to be looked up. */
async function hostileCalls({ id, token }: Team) {
  const { workspaceId, newKey } = await workspaceOf(token);
  const scopes = many(100, (i) => ({ representation: `scope-${i}`.padEnd(120, '.') }));
  for (const scope of scopes)
    await must(201, world.call('post', `/api/v1/workspace/${workspaceId}/scope`, { name: 's', ...scope }, { token }));
  const key = await newKey({ scopes: scopes.map((scope) => ({ ...scope, read: true })) });
  return (number: number) => {
    const wanted = scopes.filter((_, i) => i > 10 || (number >> i) % 2 === 0);
    return callOf(id, { key, requestedScopes: wanted.map((scope) => ({ ...scope, read: true })) });
  };
}

async function plainCalls({ id, token }: Team) {
  // The sweeper brings its token into force.
  const { newKey } = await workspaceOf(token);
  const key = await newKey({});
  return () => callOf(id, { key });
}

async function workspaceOf(token: string) {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }, { token }))).body;
  const newKey = async (fields: object): Promise<string> => {
    const body = { name: 'k', workspaceId: workspace.id, ...fields };
    return (await must(201, world.call('post', '/api/v1/api-key', body, { token }))).body.apiKey.key;
  };
  return { workspaceId: workspace.id as string, newKey };
}

function callOf(teamId: string, body: VerifyCall['body']): VerifyCall {
  const caller = { tokenId: 'tok_test', teamId, permissions: new Set(['key:verify']), workspaceIds: undefined };
  return { caller, body, clientAddress: '192.0.2.1', idempotencyKey: undefined };
}

function many<T>(count: number, make: (i: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => make(i));
}
