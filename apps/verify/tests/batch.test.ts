import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VERIFY_BATCH_PATH } from '../../../shared/verification/operation.ts';
import { makeCustomers, must, newWorkspace } from '../../../tests/helpers/customers.ts';
import { joinWorld, request, type Answer } from '../../../tests/helpers/world.ts';

// The contract of POST /api/v1/api-key/verify/batch, on both servers that have it.

const world = await joinWorld();
const workspace = await newWorkspace(world);
const customers = makeCustomers(world, workspace);

const both = () => [world.verify.url, world.api.url];

test('each verification is answered in its place as it is alone, whatever is wrong with the others', async () => {
  const scope = { name: 'Users', representation: 'users' };
  await must(201, world.call('post', `/api/v1/workspace/${workspace}/scope`, scope));
  const users = [{ representation: 'users', read: true }];
  const [good, scoped, off] = await Promise.all(
    [{ metadata: { plan: 'pro' } }, { scopes: users }, { enabled: false }].map((fields) => customers.newKey(fields)),
  );
  const meter = await customers.newMeter({ totalCredits: '1' });
  const { key: metered } = await customers.newKey({ externalMeterId: meter });
  const verifications: any[] = [
    { key: good!.key },
    { key: off!.key },
    { key: good!.key, requestedScopes: users },
    { key: scoped!.key, requestedScopes: users },
    { key: 'none' },
    { key: metered, billing: { usage: '2' } },
    // Wrong in the ways that a body can be wrong.
    {},
    null,
    [],
    'key',
    { key: 1 },
    { key: good!.key, billing: { usage: '-1', usagename: 'x' } },
    { key: good!.key, colour: 'red' },
    { key: good!.key, billing: { usage: '9000000000.000001' } },
    { key: 'x'.repeat(17_000) },
    { key: good!.key, route: 'GET /', ip: '203.0.113.9' },
  ];
  for (const url of both()) {
    const { results } = (await must(200, batch(verifications, { url }))).body;
    assert.is(results.length, verifications.length);
    for (const [i, verification] of verifications.entries()) {
      const { body } = await customers.verify(verification, { url });
      assert.equal(results[i], body.error ? { error: withoutId(body.error) } : body, JSON.stringify(verification));
    }
    assert.equal(results.slice(0, 7).map(outcome), [
      'VALID',
      'DISABLED',
      'SCOPE_MISSING',
      'VALID',
      'MALFORMED',
      'CREDITS_USED_UP',
      40001,
    ]);
    assert.is(outcome(results[14]), 41301);
  }
});

test('a token reaches with each verification what it reaches alone: keys of other teams and workspaces are unknown', async () => {
  const stranger = await world.newTeam();
  const make = async (token: string) => {
    const id = await newWorkspace(world, {}, { token });
    const body = { name: 'k', workspaceId: id };
    return { id, key: (await must(201, world.call('post', '/api/v1/api-key', body, { token }))).body.apiKey.key };
  };
  const { token } = stranger;
  const [ours, other, theirs] = [await make(world.team.token), await make(world.team.token), await make(token)];
  const limited = await world.newToken(world.team.id, ['key:verify'], [ours.id]);
  const verifications = [ours, theirs, other, ours].map(({ key }) => ({ key }));
  for (const url of both()) {
    const asked = async (token: string) =>
      (await must(200, batch(verifications, { url, token }))).body.results.map(outcome);
    assert.equal(await asked(world.team.token), ['VALID', 'NOT_FOUND', 'VALID', 'VALID']);
    assert.equal(await asked(token), ['NOT_FOUND', 'VALID', 'NOT_FOUND', 'NOT_FOUND']);
    assert.equal(await asked(limited), ['VALID', 'NOT_FOUND', 'NOT_FOUND', 'VALID']);
  }
});

test('a batch has 1 to 100 verifications in at most 256 KiB; one that is wrong as a whole decides nothing', async () => {
  const { key, meter } = await customers.meteredKey('1000000');
  const one = { key, billing: { usage: '1' } };
  const many = (count: number) => Array.from({ length: count }, () => one);
  const sized = (bytes: number) => JSON.stringify({ verifications: many(100) }).padEnd(bytes, ' ');
  for (const url of both()) {
    for (const count of [0, 101]) {
      const { body: refused } = await must(400, batch(many(count), { url }));
      assert.equal([refused.error.code, refused.error.details[0].path], [40001, '/verifications']);
    }
    const tooLong = await world.call('post', url + VERIFY_BATCH_PATH, undefined, { raw: sized(262_145) });
    assert.is(tooLong.body.error.code, 41301);
    // It would protect nothing: the retry of a batch is safe by the idempotencyKey of each verification.
    const keyed = await batch([one], { url, headers: { 'Idempotency-Key': 'all' } });
    assert.equal([keyed.status, keyed.body.error.details[0].path], [400, 'Idempotency-Key']);
  }
  assert.is((await customers.billing(meter)).usedCredits, '0');
  for (const url of both()) {
    const whole = await world.call('post', url + VERIFY_BATCH_PATH, undefined, { raw: sized(262_144) });
    assert.equal([...new Set(whole.body.results.map(outcome))], ['VALID']);
  }
  assert.is((await customers.billing(meter)).usedCredits, '200');
});

test('each verification has an idempotency key of its own: a repeated one is debited once, in the same batch too', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const { key: other, meter: otherMeter } = await customers.meteredKey('100');
  const spend = (idempotencyKey: string | undefined, usage = '1', of = key) => ({
    key: of,
    billing: { usage },
    ...(idempotencyKey && { idempotencyKey }),
  });
  for (const [i, url] of both().entries()) {
    const name = (text: string) => `${text} ${i}`;
    const verifications = [
      spend(name('one')),
      spend(name('two')),
      spend(name('one')),
      spend(undefined),
      spend(undefined),
      spend(name('one'), '1', other),
    ];
    const usedBefore = Number((await customers.billing(meter)).usedCredits);
    for (const debits of [4, 6]) {
      const { results } = (await must(200, batch(verifications, { url }))).body;
      assert.equal(results.map(outcome), Array(6).fill('VALID'));
      assert.is(Number((await customers.billing(meter)).usedCredits) - usedBefore, debits);
    }
    assert.is((await customers.billing(otherMeter)).usedCredits, String(i + 1));
    // The header of a single verification stands for the same key.
    const single = { key, billing: { usage: '1' } };
    const repeated = await customers.verify(single, { url, headers: { 'Idempotency-Key': name('one') } });
    assert.is(repeated.body.status, 'VALID');
    assert.is(Number((await customers.billing(meter)).usedCredits) - usedBefore, 6);
    // Another cost under it is that verification's failure alone.
    const unusable = ['', 'é', ' x', 'x'.repeat(256)].map((idempotencyKey) => ({ key, idempotencyKey }));
    const mixed = [spend(name('one'), '2'), spend(name('two')), ...unusable];
    const { results } = (await must(200, batch(mixed, { url }))).body;
    assert.equal(results.map(outcome), [40904, 'VALID', 40001, 40001, 40001, 40001]);
    assert.is(results[2].error.details[0].path, '/idempotencyKey');
  }
});

test("each verification of a batch takes a place and counts for its team's requests per second; those without cost nothing", async () => {
  const { key, meter } = await customers.meteredKey('1000');
  const verifications = Array.from({ length: 100 }, () => ({ key, billing: { usage: '1' } }));
  let used = 0;
  for (const [program, settings, code] of [
    ['verify', { VERIFY_MAX_WAITING: '3' }, 50308],
    ['verify', { QUOTA_VERIFY_PER_SECOND: '3' }, 42920],
    ['api', { QUOTA_VERIFY_PER_SECOND: '3' }, 42920],
  ] as const) {
    const narrow = await world.start(program, settings);
    const outcomes = (await must(200, batch(verifications, { url: narrow.url }))).body.results.map(outcome);
    const { VALID = 0, [code]: refused = 0 } = count(outcomes);
    assert.is(VALID + refused, 100, outcomes.join());
    assert.ok(VALID >= 3 && refused > 0, `${VALID} decided`);
    assert.is((await customers.billing(meter)).usedCredits, String((used += VALID)));
    await narrow.stop();
  }
});

type BatchOptions = { url?: string; token?: string | null; headers?: Record<string, string> };

function batch(verifications: unknown[], options: BatchOptions = {}): Promise<Answer> {
  const { url = world.verify.url, token = world.team.token, headers = {} } = options;
  return request(url + VERIFY_BATCH_PATH, 'post', { token, headers, body: { verifications } });
}

/** The reason, else the status, else the code of the error. */
function outcome(result: { status?: string; reason?: string; error?: { code: number } }): string | number | undefined {
  return result.error?.code ?? result.reason ?? result.status;
}

function count(outcomes: string[]): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(outcomes, String)].map(([name, { length }]) => [name, length]));
}

function withoutId({ code, message, details }: Record<string, unknown>): object {
  return { code, message, ...(details !== undefined && { details }) };
}
