import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VERIFY_BATCH_PATH } from '../../../shared/verification/operation.ts';
import { must, request, joinWorkspace } from '../../../tests/helpers/world.ts';

// The contract of POST /api/v1/api-key/verify/batch, on both servers that have it.

const { world, workspaceId: workspace, customers } = await joinWorkspace();

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
  }
});

test('a batch has up to 100 verifications in at most 256 KiB; one that is wrong as a whole decides nothing', async () => {
  const { key, meter } = await customers.meteredKey('1000000');
  const one = { key, billing: { usage: '1' } };
  for (const url of both()) {
    const sized = (bytes: number) => {
      const raw = JSON.stringify({ verifications: Array.from({ length: 100 }, () => one) }).padEnd(bytes, ' ');
      return world.call('post', url + VERIFY_BATCH_PATH, undefined, { raw });
    };
    const before = (await customers.billing(meter)).usedCredits;
    assert.is((await sized(262_145)).body.error.code, 41301);
    // It would protect nothing: the retry of a batch is safe by the idempotencyKey of each verification.
    const keyed = await batch([one], { url, headers: { 'Idempotency-Key': 'all' } });
    assert.equal([keyed.status, keyed.body.error.details[0].path], [400, 'Idempotency-Key']);
    assert.is((await customers.billing(meter)).usedCredits, before);
    assert.equal([...new Set((await sized(262_144)).body.results.map(outcome))], ['VALID']);
  }
  assert.is((await customers.billing(meter)).usedCredits, '200');
});

test('each verification has an idempotency key of its own: a repeated one is debited once, in the same batch too', async () => {
  for (const url of both()) {
    const { key, meter } = await customers.meteredKey('100');
    const spend = (idempotencyKey?: string, usage = '1') => ({ key, billing: { usage }, idempotencyKey });
    const verifications = [spend('one'), spend('two'), spend('one'), spend(), spend()];
    for (const used of ['4', '6']) {
      const { results } = (await must(200, batch(verifications, { url }))).body;
      assert.equal(results.map(outcome), Array(5).fill('VALID'));
      assert.is((await customers.billing(meter)).usedCredits, used);
    }
    // The header of a single verification stands for the same key.
    await must(200, customers.verify({ key, billing: { usage: '1' } }, { url, headers: { 'Idempotency-Key': 'one' } }));
    // Another cost under it is that verification's failure alone.
    const unusable = ['', 'é', ' x', 'x'.repeat(256)].map((idempotencyKey) => spend(idempotencyKey));
    const { results } = (await must(200, batch([spend('one', '2'), spend('two'), ...unusable], { url }))).body;
    assert.equal(results.map(outcome), [40904, 'VALID', 40001, 40001, 40001, 40001]);
    assert.is(results[2].error.details[0].path, '/idempotencyKey');
    assert.is((await customers.billing(meter)).usedCredits, '6');
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

function batch(verifications: unknown[], { url, headers = {} }: { url: string; headers?: Record<string, string> }) {
  return request(url + VERIFY_BATCH_PATH, 'post', { token: world.team.token, headers, body: { verifications } });
}

function outcome(result: { status?: string; reason?: string; error?: { code: number } }): string | number | undefined {
  return result.error?.code ?? result.reason ?? result.status;
}

function count(outcomes: string[]): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(outcomes, String)].map(([name, { length }]) => [name, length]));
}

function withoutId({ code, message, details }: Record<string, unknown>): object {
  return { code, message, ...(details !== undefined && { details }) };
}
