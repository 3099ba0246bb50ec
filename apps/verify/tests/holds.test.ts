import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readBalances } from '../../../shared/books/balances.ts';
import type { BillingRef } from '../../../shared/books/billing-refs.ts';
import { connectClickHouse } from '../../../shared/stores/clickhouse.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { inLongForm } from '../../../tests/helpers/long-form.ts';
import {
  connectTestRedis,
  eventually,
  makeWorld,
  request,
  type Answer,
  type World,
} from '../../../tests/helpers/world.ts';

// Section "Holds" of the contract, line by line, on the verify server and on the api.

const SETTLED_WITHIN_MS = 1_000;
const TRIES = 5;
const CLOCKS_APART_MS = 1_000;

let world: World;
let redis: ShardedRedis;
let customers: Customers;
let workspaceId: string;

const test = suite('holds');
const longTest = inLongForm(test);
test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  redis = await connectTestRedis();
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
  const warm = await customers.meteredKey('1');
  await eventually('the keys of holds are there', async () => (await hold(warm.key, '0')).status === 200);
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

type Options = {
  usageName?: string;
  expiresIn?: number;
  onExpiry?: string;
  url?: string;
  headers?: Record<string, string>;
};

function hold(key: string, usage: string, { url, headers = {}, usageName, ...options }: Options = {}): Promise<Answer> {
  const body = { key, billing: { usage, ...(usageName && { usageName }), hold: { expiresIn: 60, ...options } } };
  return customers.verify(body, { ...(url && { url }), headers });
}

async function held(key: string, usage: string, options: Options = {}): Promise<string> {
  const { body } = await must(200, hold(key, usage, options));
  assert.is(body.status, 'VALID', JSON.stringify(body));
  return body.hold.id;
}

type Asked = { url?: string; token?: string };
function ask(what: string, body: object, { url = world.verify!.url, token = world.team.token }: Asked = {}) {
  return request(`${url}/api/v1/usage/${what}`, 'post', { token, body });
}
const capture = (holdId: string, usage: string, asked?: Asked) => ask('capture', { holdId, usage }, asked);
const release = (holdId: string, asked?: Asked) => ask('release', { holdId }, asked);
const extend = (holdId: string, expiresIn: number, asked?: Asked) => ask('extend', { holdId, expiresIn }, asked);

async function amounts(meter: string): Promise<string> {
  return amountsOf(await customers.billing(meter));
}

function amountsOf(billing: object): string {
  const record = billing as Record<string, string>;
  const { usedCredits, availableCredits, heldCredits, expiredCredits, totalCredits } = record;
  const micros = (text = '') => Math.round(Number(text) * 1e6);
  const sum = [usedCredits, availableCredits, heldCredits, expiredCredits].reduce((all, one) => all + micros(one), 0);
  assert.is(sum, micros(totalCredits), 'the identity');
  return `${usedCredits} used ${heldCredits} held ${availableCredits} available`;
}

/** Whether Redis's clock showed an instant between `before` and now; it may be apart from ours. */
function isSince(before: number, atMs: number): boolean {
  return atMs > before - CLOCKS_APART_MS && atMs < Date.now() + CLOCKS_APART_MS;
}

/** The api's and the verify server's address in turn. */
const servers = () => [world.verify!.url, world.api.url];

test('verify with a hold moves the amount from available to held, and answers the hold', async () => {
  for (const url of servers()) {
    const { key, meter } = await customers.meteredKey('100');
    const before = Date.now();
    const { body } = await must(200, hold(key, '30.5', { url }));
    assert.is(body.status, 'VALID');
    assert.is(body.hold.credits, '30.5');
    assert.match(body.hold.id, /^hold_[A-Za-z0-9_-]{50,}$/);
    assert.ok(isSince(before, body.hold.expiresAt - 60_000), `${body.hold.expiresAt - before} ms`);
    assert.is(amountsOf(body.billing), '0 used 30.5 held 69.5 available');
    assert.is(await amounts(meter), '0 used 30.5 held 69.5 available');
    assert.is((await hold(key, '69.500001', { url })).body.reason, 'CREDITS_USED_UP');
  }
});

test('a hold takes rate and limits as always', async () => {
  const meter = await customers.newMeter({ totalCredits: '100' });
  const { key } = await customers.newKey({ externalMeterId: meter, rateLimitPerSecond: 1 });
  const answers = await Promise.all(Array.from({ length: 20 }, () => hold(key, '1')));
  assert.ok(answers.some(({ body }) => body.status === 'RATE_LIMITED'));
});

test('on an unmetered key: VALID without a hold', async () => {
  const limits = [{ name: 'monthly', unit: 'credits', limit: '100', per: 'month' }];
  const { id, key } = await customers.newKey({ limits });
  const { body } = await must(200, hold(key, '5'));
  assert.is(body.status, 'VALID');
  assert.is(body.hold, undefined);
  assert.is(body.billing, undefined);
  assert.is(body.limits[0].remaining, '95');
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  // As its limit counts it.
  await eventually('the books have it', async () => {
    const query = 'select kind, cost_micros from usage_events final where key_id = {id:String}';
    const answer = await books.client.query({ query, query_params: { id }, format: 'JSONCompactEachRow' });
    return String(await answer.json()) === 'verification,5000000';
  });
  await books.close();
});

test('capture releases the hold and debits the usage in one step', async () => {
  for (const url of servers()) {
    const { key, meter } = await customers.meteredKey('100');
    const holdId = await held(key, '30', { url });
    const { body } = await must(200, capture(holdId, '12.25', { url }));
    assert.equal(body.capture, { holdId, usage: '12.25', late: false, overdrawn: false });
    assert.is(amountsOf(body.billing), '12.25 used 0 held 87.75 available');
    assert.is(body.billing.workspaceId, workspaceId);
    assert.is(body.billing.externalMeterId, meter);
    assert.is(await amounts(meter), '12.25 used 0 held 87.75 available');
  }
});

test('a capture of more than was held is debited too, and overdrawn tells when the record has less', async () => {
  const { key } = await customers.meteredKey('100');
  const [first, second] = [await held(key, '30'), await held(key, '30')];
  const within = await must(200, capture(first, '60'));
  assert.is(within.body.capture.overdrawn, false);
  assert.is(amountsOf(within.body.billing), '60 used 30 held 10 available');
  const beyond = await must(200, capture(second, '45'));
  assert.is(beyond.body.capture.overdrawn, true);
  assert.is(amountsOf(beyond.body.billing), '105 used 0 held -5 available');
});

test('overdrawn when used and held are above the spend cap afterwards', async () => {
  const meter = await customers.newMeter({ totalCredits: '0', allowOverages: true, spendCap: '10' });
  const { key } = await customers.newKey({ externalMeterId: meter });
  const [first, second] = [await held(key, '5'), await held(key, '5')];
  assert.is((await must(200, capture(first, '5'))).body.capture.overdrawn, true, 'available is below 0');
  const capped = await customers.newMeter({ totalCredits: '100', spendCap: '10' });
  const other = await customers.newKey({ externalMeterId: capped });
  const [a, b] = [await held(other.key, '5'), await held(other.key, '5')];
  assert.is((await must(200, capture(a, '5'))).body.capture.overdrawn, false);
  assert.is((await must(200, capture(b, '6'))).body.capture.overdrawn, true);
  await must(200, release(second));
});

test('changed settings are in force for the next capture, however many there were before', async () => {
  const meter = await customers.newMeter({ totalCredits: '100', spendCap: '10' });
  const { key } = await customers.newKey({ externalMeterId: meter });
  for (const overdrawn of [false, false, true]) {
    const { body } = await must(200, capture(await held(key, '1'), '4'));
    assert.equal([body.capture.overdrawn, body.billing.spendCap], [overdrawn, '10']);
  }
  const { id } = await customers.billing(meter);
  await must(200, world.call('patch', `/api/v1/customer-billing/${id}`, { spendCap: '50' }));
  for (const used of ['16', '20']) {
    const { body } = await must(200, capture(await held(key, '1'), '4'));
    assert.equal([body.capture.overdrawn, body.billing.spendCap, body.billing.usedCredits], [false, '50', used]);
  }
});

test('a capture past 9000000000 is 400, and the hold stays', async () => {
  const meter = await customers.newMeter({ totalCredits: '9000000000' });
  const { key } = await customers.newKey({ externalMeterId: meter });
  await must(200, customers.verify({ key, billing: { usage: '5' } }));
  const holdId = await held(key, '1');
  assert.is((await capture(holdId, '9000000000')).body.error.code, 40006);
  assert.is((await capture(holdId, '9000000001')).body.error.code, 40001);
  assert.is(await amounts(meter), '5 used 1 held 8999999994 available');
  await must(200, capture(holdId, '8999999995'));
});

test('release gives everything back; again it answers the same, and after a capture it is 409', async () => {
  for (const url of servers()) {
    const { key, meter } = await customers.meteredKey('100');
    const [first, second] = [await held(key, '30', { url }), await held(key, '30', { url })];
    assert.equal((await must(200, release(first, { url }))).body.release, { holdId: first });
    assert.equal((await must(200, release(first, { url }))).body.release, { holdId: first });
    assert.is((await capture(first, '1', { url })).body.error.code, 40951);
    await must(200, capture(second, '7', { url }));
    assert.is((await release(second, { url })).body.error.code, 40951);
    assert.is(await amounts(meter), '7 used 0 held 93 available');
  }
});

test('extend only while the hold is open, counted from now', async () => {
  for (const url of servers()) {
    const { key, meter } = await customers.meteredKey('100');
    const holdId = await held(key, '30', { url, expiresIn: 60 });
    const before = Date.now();
    const { body } = await must(200, extend(holdId, 600, { url }));
    assert.is(body.hold.id, holdId);
    assert.is(body.hold.credits, '30');
    assert.ok(isSince(before, body.hold.expiresAt - 600_000), `${body.hold.expiresAt - before} ms`);
    assert.is(amountsOf(body.billing), '0 used 30 held 70 available');
    const other = await held(key, '1', { url, expiresIn: 1 });
    await eventually('the other one ended', async () => (await amounts(meter)) === '0 used 30 held 70 available');
    assert.is((await extend(other, 60, { url })).body.error.code, 40951);
    await must(200, release(holdId, { url }));
    assert.is((await extend(holdId, 60, { url })).body.error.code, 40951);
  }
});

test('the same capture again gets the same answer with the record as it is, and another usage is 409', async () => {
  const { key } = await customers.meteredKey('100');
  const holdId = await held(key, '30');
  const first = await must(200, capture(holdId, '10'));
  await must(200, customers.verify({ key, billing: { usage: '5' } }));
  const again = await must(200, capture(holdId, '10.0'));
  assert.equal(again.body.capture, first.body.capture);
  assert.is(amountsOf(again.body.billing), '15 used 0 held 85 available');
  assert.is((await capture(holdId, '11')).body.error.code, 40951);
});

test('expired holds are settled within 1 s even if nobody calls: release gives back, charge debits', async () => {
  for (const [onExpiry, used] of [
    ['release', 0],
    ['charge', 30],
  ] as const) {
    let [holdId, lateMs] = ['', Infinity];
    // A busy machine may take longer now and then.
    for (let tries = 0; tries < TRIES && lateMs >= SETTLED_WITHIN_MS; tries++) {
      const { key, meter } = await customers.meteredKey('100');
      const { body } = await must(200, hold(key, '30', { expiresIn: 1, onExpiry }));
      holdId = body.hold.id;
      lateMs = (await settledAt(meter, used)) - body.hold.expiresAt;
      assert.ok(lateMs >= 0, `${-lateMs} ms before its end`);
    }
    assert.ok(lateMs < SETTLED_WITHIN_MS, `${lateMs} ms after its end`);
    if (onExpiry === 'charge') assert.is((await release(holdId)).body.error.code, 40951);
    else await must(200, release(holdId));
  }
});

/**
 * When what a record held was settled, by the line about it: a busy machine sees it later. It is looked at in Redis, since the api
 * settles what it answers.
 */
async function settledAt(meter: string, usedCredits: number): Promise<number> {
  const [record] = await world.sql<[BillingRef]>`
    select id, shard, workspace_id, external_meter_id from billing_records where external_meter_id = ${meter}`;
  const { usedMicros } = await eventually('it ended', async () => {
    const [balance] = await readBalances(redis, [record]);
    return balance && (balance.heldMicros ?? 0) === 0 ? balance : undefined;
  });
  assert.is(usedMicros, usedCredits * 1e6);
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const line = await eventually('its line is in the books', async () => {
    const query = `
      select toFloat64(toUnixTimestamp64Milli(time)) as at from usage_events
      where billing_id = {id:String} and kind in ('capture', 'release')`;
    const answer = await books.client.query({ query, query_params: { id: record.id }, format: 'JSONEachRow' });
    return (await answer.json<{ at: number }>())[0];
  });
  await books.close();
  return line.at;
}

test('late, up to 24 h after its end, a capture is debited: after a release whole', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const holdId = await held(key, '30', { expiresIn: 1 });
  await eventually('it ended', async () => (await amounts(meter)) === '0 used 0 held 100 available');
  const { body } = await must(200, capture(holdId, '20'));
  assert.equal(body.capture, { holdId, usage: '20', late: true, overdrawn: false });
  assert.is(amountsOf(body.billing), '20 used 0 held 80 available');
  assert.equal((await must(200, capture(holdId, '20'))).body.capture, body.capture);
  assert.is((await release(holdId)).body.error.code, 40951);
  assert.is((await capture(holdId, '21')).body.error.code, 40951);
});

test('late after a charge: one correction of usage less what was charged, either sign', async () => {
  for (const [usage, after] of [
    ['20', '20 used 0 held 80 available'],
    ['45', '45 used 0 held 55 available'],
  ] as const) {
    const { key, meter } = await customers.meteredKey('100');
    const holdId = await held(key, '30', { expiresIn: 1, onExpiry: 'charge' });
    await eventually('it was charged', async () => (await amounts(meter)) === '30 used 0 held 70 available');
    assert.equal((await must(200, capture(holdId, usage))).body.capture, {
      holdId,
      usage,
      late: true,
      overdrawn: false,
    });
    await must(200, capture(holdId, usage));
    assert.is(await amounts(meter), after);
    const { id } = await customers.billing(meter);
    await eventually('the books have it', async () => (await customers.usage(meter)) === usage);
    const reconciliation = await eventually('nothing is on its way', async () => {
      const found = (await must(200, world.call('get', `/api/v1/customer-billing/${id}/reconciliation`))).body;
      return found.reconciliation.status === 'ON_ITS_WAY' ? undefined : found.reconciliation;
    });
    assert.equal(
      [reconciliation.status, reconciliation.usedCredits, reconciliation.heldCredits],
      ['EXACT', usage, '0'],
    );
  }
});

test('an idempotent verify answers the same hold, and with other options of the hold it is 409', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const headers = { 'Idempotency-Key': 'once' };
  const [first, second] = [await hold(key, '30', { headers }), await hold(key, '30', { headers })];
  assert.equal(second.body.hold, first.body.hold);
  assert.is(await amounts(meter), '0 used 30 held 70 available');
  for (const changed of [{ expiresIn: 61 }, { onExpiry: 'charge' }, { usageName: 'other' }])
    assert.is((await hold(key, '30', { headers, ...changed })).body.error.code, 40904);
  assert.is((await hold(key, '31', { headers })).body.error.code, 40904);
  const plain = await customers.verify({ key, billing: { usage: '30' } }, { headers });
  assert.is(plain.body.error.code, 40904);
  await must(200, capture(first.body.hold.id, '1'));
  assert.equal((await hold(key, '30', { headers })).body.hold, first.body.hold);
});

test('a batch of verifications may hold, each by itself', async () => {
  for (const url of servers()) {
    const { key, meter } = await customers.meteredKey('100');
    const one = (usage: string) => ({ key, billing: { usage, hold: { expiresIn: 60 } } });
    const verifications = [one('60'), one('60'), { key, billing: { usage: '10' } }, one('30')];
    const options = { token: world.team.token, body: { verifications } };
    const { results } = (await must(200, request(`${url}/api/v1/api-key/verify/batch`, 'post', options))).body;
    assert.equal(
      results.map(({ status }: { status: string }) => status),
      ['VALID', 'USAGE_LIMITED', 'VALID', 'VALID'],
    );
    assert.is(await amounts(meter), '10 used 90 held 0 available');
    await must(200, capture(results[0].hold.id, '1', { url }));
    await must(200, capture(results[3].hold.id, '2', { url }));
    assert.is(await amounts(meter), '13 used 0 held 87 available');
  }
});

test('a capture works after the key was deleted, disabled or rotated', async () => {
  const path = (id: string) => `/api/v1/workspace/${workspaceId}/api-key/${id}`;
  for (const end of [
    (id: string) => world.call('delete', path(id)),
    (id: string) => world.call('patch', path(id), { enabled: false }),
    (id: string) => world.call('post', `${path(id)}/rotate`, {}),
  ]) {
    const { id, key } = await customers.meteredKey('100');
    const holdId = await held(key, '30');
    assert.ok((await end(id)).status < 300);
    await must(200, capture(holdId, '3'));
  }
});

test('who may settle follows from the team and the workspaces of the token: else 404', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const holdId = await held(key, '30', { expiresIn: 600 });
  const stranger = (await world.newTeam()).token;
  const elsewhere = await world.newWorkspace(world.team.id);
  const limited = await world.newToken(world.team.id, ['key:verify'], [elsewhere]);
  const fitting = await world.newToken(world.team.id, ['key:verify'], [workspaceId]);
  const powerless = await world.newToken(world.team.id, ['billing:write']);
  for (const url of servers()) {
    for (const token of [stranger, limited]) {
      const asked = { url, token };
      const refusals = [capture(holdId, '1', asked), release(holdId, asked), extend(holdId, 9, asked)];
      for (const refused of refusals) {
        await eventually('the token is known', async () => (await release('hold_x', asked)).status !== 401);
        const { error } = (await refused).body;
        if (error.code !== 40102) assert.is(error.code, 40450);
      }
      assert.is((await capture(holdId, '1', asked)).body.error.code, 40450);
    }
    await eventually(
      'the token is known',
      async () => (await release('hold_x', { url, token: powerless })).status !== 401,
    );
    assert.is((await capture(holdId, '1', { url, token: powerless })).body.error.code, 40301);
    for (const wrong of [
      'hold_',
      'hold_AAAA',
      `${holdId.slice(0, -1)}${holdId.endsWith('A') ? 'B' : 'A'}AA`,
      `x${holdId}`,
      'nothing',
    ])
      assert.is((await capture(wrong, '1', { url })).body.error.code, 40450, wrong);
  }
  assert.is(await amounts(meter), '0 used 30 held 70 available');
  await eventually('the token is known', async () => (await release('hold_x', { token: fitting })).status !== 401);
  await must(200, capture(holdId, '3', { token: fitting }));
});

test('after a workspace was deleted new calls are refused at once, and its open holds can still be captured', async () => {
  const other = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  const { key, meter } = await makeCustomers(world, other).meteredKey('100');
  const first = await held(key, '30');
  const { id } = (await must(200, hold(key, '5', { expiresIn: 1, onExpiry: 'charge' }))).body.billing;
  await must(200, world.call('delete', `/api/v1/workspace/${other}`));
  assert.is((await hold(key, '1')).body.status, 'INVALID');
  await eventually('the other one ended', async () => {
    const { billing } = (await must(200, world.call('get', `/api/v1/customer-billing/${id}`))).body;
    return billing.usedCredits === '5';
  });
  const { body } = await must(200, capture(first, '12'));
  assert.is(body.capture.usage, '12');
  assert.is(body.billing.externalMeterId, meter);
  assert.is(amountsOf(body.billing), '17 used 0 held 83 available');
});

test('2,000 concurrent holds of 1 on 1,000 credits give exactly 1,000', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  const decide = async (i: number): Promise<Answer> => {
    const url = servers()[i % 2]!;
    const answer = await hold(key, '1', { url, expiresIn: 600, headers: { 'Idempotency-Key': `hold-${i}` } });
    return answer.status === 503 ? decide(i) : answer;
  };
  const answers = await Promise.all(Array.from({ length: 2_000 }, (_, i) => decide(i)));
  const ids = new Set(answers.flatMap(({ body }) => (body.hold ? [body.hold.id] : [])));
  assert.is(answers.filter(({ body }) => body.status === 'VALID').length, 1_000);
  assert.is(ids.size, 1_000);
  assert.is(await amounts(meter), '0 used 1000 held 0 available');
});

longTest(
  '64 clients that die at random never lose a credit nor pass a limit: the identity holds, and the books prove it',
  async () => {
    const [mostHolds, mostCredits] = [500, 3_000];
    const limits = [
      { name: 'calls', unit: 'requests', limit: mostHolds, per: 'month' },
      { name: 'spend', unit: 'credits', limit: String(mostCredits), per: 'month' },
    ];
    const meter = await customers.newMeter({ totalCredits: '100000', limits });
    const { key } = await customers.newKey({ externalMeterId: meter });
    // Goes away before the answer, or does not.
    const send = async (path: string, body: object): Promise<any> => {
      const headers = { Authorization: `Bearer ${world.team.token}`, 'Content-Type': 'application/json' };
      const signal = AbortSignal.timeout(Math.random() < 0.3 ? 1 + Math.floor(Math.random() * 30) : 10_000);
      const sent = { method: 'POST', headers, body: JSON.stringify(body), signal };
      const answer = await fetch(`${servers()[Math.floor(Math.random() * 2)]}${path}`, sent).catch(() => undefined);
      return answer?.json().catch(() => undefined);
    };
    const captured = new Map<string, number>();
    const client = async (i: number) => {
      const onExpiry = i % 5 === 0 ? 'charge' : 'release';
      const wanted = { expiresIn: 2, onExpiry };
      const answer = await send('/api/v1/api-key/verify', { key, billing: { usage: '10', hold: wanted } });
      const holdId = answer?.hold?.id as string | undefined;
      if (!holdId || Math.random() < 0.1) return;
      if (Math.random() < 0.2) await send('/api/v1/usage/extend', { holdId, expiresIn: 3 });
      const usage = 1 + (i % 15);
      if (i % 7 === 0) return void (await send('/api/v1/usage/release', { holdId }));
      captured.set(holdId, usage);
      await send('/api/v1/usage/capture', { holdId, usage: String(usage) });
    };
    for (let round = 0; round < 10; round++)
      await Promise.all(Array.from({ length: 64 }, (_, i) => client(round * 64 + i)));
    // Whoever does not know whether a capture was booked, repeats it.
    for (const [holdId, usage] of captured) {
      const { capture: booked } = await eventually('it is captured', async () => {
        const answer = await capture(holdId, String(usage));
        return answer.status === 200 && answer.body;
      });
      assert.is(booked.usage, String(usage));
    }
    await eventually('nothing is held any more', async () => (await customers.billing(meter)).heldCredits === '0');
    await amounts(meter);
    const { id, usedCredits } = await customers.billing(meter);
    // Besides, only holds that nobody settled were charged.
    const charged = Number(usedCredits) - [...captured.values()].reduce((all, one) => all + one, 0);
    assert.ok(charged >= 0 && charged % 10 === 0, `${charged} beyond what was captured`);
    await eventually('the books prove it', async () => {
      const path = `/api/v1/customer-billing/${id}/reconciliation`;
      const { reconciliation } = (await must(200, world.call('get', path))).body;
      return reconciliation.status === 'EXACT' && reconciliation.bookedCredits === usedCredits;
    });
    // What the limits have counted is what the books have: each hold once, and of each what it did cost.
    const holds = await bookedHolds(id);
    assert.ok(holds > 0 && holds <= mostHolds, `${holds} holds`);
    const { body } = await must(200, customers.verify({ key, billing: { usage: '0' } }));
    assert.equal(
      body.limits.map(({ remaining }: { remaining: number | string }) => Number(remaining)),
      [Math.max(0, mostHolds - holds - 1), Math.max(0, mostCredits - Number(usedCredits))],
    );
  },
);

async function bookedHolds(billingId: string): Promise<number> {
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const query = `select count() from usage_events final where billing_id = {billingId:String} and kind = 'hold'`;
  const answer = await books.client.query({ query, query_params: { billingId }, format: 'JSONCompactEachRow' });
  const [[holds]] = (await answer.json<[string]>()) as [[string]];
  await books.close();
  return Number(holds);
}

test('at most 10,000 open holds per record: one more is 409, in a batch too', async () => {
  const { key, meter } = await customers.meteredKey('20000');
  const one = { key, billing: { usage: '1', hold: { expiresIn: 3_600 } } };
  const batch = async (count: number) => {
    const body = { verifications: Array.from({ length: count }, () => one) };
    const answer = request(`${world.verify!.url}/api/v1/api-key/verify/batch`, 'post', {
      token: world.team.token,
      body,
    });
    return (await must(200, answer)).body.results as {
      status?: string;
      hold?: { id: string };
      error?: { code: number };
    }[];
  };
  let open = 0;
  let last = '';
  // What was not decided in time on a busy machine held nothing or holds for a while; both are counted by the record.
  while (open < 9_990) {
    const results = await batch(Math.min(100, 9_990 - open));
    last = results.findLast(({ hold }) => hold)?.hold?.id ?? last;
    open = Number((await customers.billing(meter)).heldCredits);
  }
  const results = await batch(12);
  assert.is(results.filter(({ status }) => status === 'VALID').length, 10);
  assert.equal(
    results.slice(10).map(({ error }) => error?.code),
    [40950, 40950],
  );
  assert.is((await hold(key, '1')).body.error.code, 40950);
  await must(200, release(last));
  await must(200, hold(key, '1'));
});

test('the api lists what is held, since when, until when, and by which key, page by page', async () => {
  const { id: apiKeyId, key, meter } = await customers.meteredKey('100');
  const { id } = await customers.billing(meter);
  const before = Date.now();
  const ids = [];
  for (const expiresIn of [300, 100, 200, 100])
    ids.push(await held(key, '2.5', { expiresIn, usageName: 'tokens', onExpiry: 'charge' }));
  const list = async (query: string) => {
    return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/holds${query}`))).body;
  };
  const { holds, nextCursor } = await list('?limit=3');
  assert.equal(
    holds.map((one: { id: string }) => one.id),
    [ids[1], ids[3], ids[2]],
  );
  const { id: _, createdAt, expiresAt, ...rest } = holds[2];
  assert.equal(rest, { credits: '2.5', apiKeyId, usageName: 'tokens', onExpiry: 'charge' });
  assert.ok(isSince(before, Date.parse(createdAt)), createdAt);
  assert.is(expiresAt - Date.parse(createdAt), 200_000);
  const next = await list(`?limit=3&cursor=${nextCursor}`);
  assert.equal(
    next.holds.map((one: { id: string }) => one.id),
    [ids[0]],
  );
  assert.is(next.nextCursor, undefined);
  for (const holdId of ids) await must(200, release(holdId));
  assert.equal((await list('')).holds, []);
});

test('while the outbox is full, hold and capture are 503, and the hold stays', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const holdId = await held(key, '30', { expiresIn: 600 });
  // Full for this server from the first event on; nobody takes events out meanwhile.
  await world.consumer!.stop();
  await must(200, customers.verify({ key }));
  const full = await world.start('verify', { OUTBOX_MAX_ENTRIES: '1' });
  await eventually(
    'it has seen that',
    async () => (await hold(key, '1', { url: full.url })).body.error?.code === 50306,
  );
  assert.is((await capture(holdId, '1', { url: full.url })).body.error.code, 50306);
  assert.ok(Number((await customers.billing(meter)).heldCredits) >= 30);
  await must(200, capture(holdId, '1'));
  await full.stop();
  world.consumer = await world.start('consumer');
});

test('wrong options of a hold are 400', async () => {
  const { key } = await customers.meteredKey('1');
  for (const options of [{ expiresIn: 0 }, { expiresIn: 86_401 }, { expiresIn: 1.5 }, { onExpiry: 'keep' }])
    assert.is((await hold(key, '1', options)).body.error.code, 40001);
});

test.run();
