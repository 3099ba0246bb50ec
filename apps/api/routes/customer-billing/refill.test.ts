import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld, once, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/customer-billing';
let world: World;
let workspaceId: string;
const test = suite('refills');
test.before(async () => {
  world = await joinWorld();
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body.workspace.id;
});
test.after(() => world?.stop());

test('each refill adds exactly its amount, a decimal text or a number, and writes one row of the ledger, which is read in pages', async () => {
  const id = await newRecord('refilled', '0.000001');
  const refills = [
    [1, '1', '1.000001'],
    ['007.50', '7.5', '8.500001'],
    [0.000001, '0.000001', '8.500002'],
    [0.1, '0.1', '8.600002'],
    [0.2, '0.2', '8.800002'],
    ['8589934592.123457', '8589934592.123457', '8589934600.923459'],
  ] as const;
  for (const [refill, , total] of refills) assert.is(await refilled('refilled', refill), total);
  assert.is(await codeOf('refilled', 8589934592.123457), 40001, 'a double of this size is not exact');
  await must(200, refill('refilled', 5, { 'X-Request-Id': 'refill-7' }));
  const lines: any[] = [];
  for (let cursor = ''; cursor !== undefined;) {
    const { body } = await must(200, world.call('get', `${PATH}/${id}/ledger?limit=3${cursor && `&cursor=${cursor}`}`));
    lines.push(...body.ledger);
    cursor = body.nextCursor;
  }
  assert.equal(
    lines.map((line) => line.amount),
    [...refills.map(([, amount]) => amount), '5'],
  );
  const last = lines.at(-1);
  const [token] = await world.sql`select id from access_tokens where team_id = ${world.team.id} order by id limit 1`;
  assert.match(last.id, /^ledger_[0-9a-z]{26}$/);
  assert.equal(last, {
    id: last.id,
    billingId: id,
    amount: '5',
    totalCredits: '8589934605.923459',
    tokenId: token!.id,
    requestId: 'refill-7',
    createdAt: last.createdAt,
  });
});

test('concurrent refills all count', async () => {
  const id = await newRecord('busy');
  const totals = await Promise.all(Array.from({ length: 12 }, (_, i) => refilled('busy', i + 0.000001)));
  assert.is(new Set(totals).size, 12);
  const { ledger } = (await must(200, world.call('get', `${PATH}/${id}/ledger?limit=200`))).body;
  assert.equal([ledger.length, ledger.at(-1).totalCredits], [12, '66.000012']);
  assert.is(await total(id), '66.000012');
});

test('a refill repeated with its Idempotency-Key adds once, also when the repetitions are concurrent', async () => {
  const id = await newRecord('repeated');
  const headers = once();
  const answers = await Promise.all(Array.from({ length: 5 }, () => refill('repeated', 2.5, headers)));
  for (const answer of answers) assert.equal([answer.status, answer.body], [200, answers[0]!.body]);
  assert.is(answers[0]!.body.billing.totalCredits, '2.5');
  await refilled('repeated', 2.5);
  const again = await refill('repeated', 2.5, headers);
  assert.equal(again.body, answers[0]!.body, 'the first answer, not the record as it is by now');
  assert.is(await total(id), '5');
  assert.is((await world.call('get', `${PATH}/${id}/ledger`)).body.ledger.length, 2);
  assert.is((await refill('repeated', 3, headers)).body.error.code, 40904);
});

test('no sum passes 9000000000', async () => {
  await newRecord('full', '8999999999.999999');
  for (const amount of [0.000002, 9_000_000_000]) assert.is(await codeOf('full', amount), 40006);
  assert.is(await refilled('full', 0.000001), '9000000000');
  assert.is(await codeOf('full', 0.000001), 40006);
});

test('a wrong amount is a 400 that names the field', async () => {
  const id = await newRecord('bad');
  const numbers = [0, -1, 0.0000001, 1.0000001, 9_000_000_001, 1e300];
  const texts = ['0', '0.000000', '', ' 1', '+1', '-1', '1.', '.5', '1e3', '1,5', '1.0000001', '9000000000.000001'];
  for (const amount of [...numbers, ...texts, '9000000001', '٣', [1], true, null, undefined]) {
    const { error } = (await must(400, refill('bad', amount))).body;
    const paths = error.details.map(({ path }: { path: string }) => path);
    assert.equal([error.code, paths.includes('/refill')], [40001, true], String(amount));
  }
  assert.is(await total(id), '0');
});

test.run();

async function newRecord(externalMeterId: string, totalCredits = '0'): Promise<string> {
  const body = { workspaceId, externalMeterId, totalCredits };
  return (await must(201, world.call('post', PATH, body))).body.billing.id;
}

function refill(externalMeterId: string, amount: unknown, headers: Record<string, string> = {}) {
  return world.call('post', `${PATH}/refill`, { workspaceId, externalMeterId, refill: amount }, { headers });
}

/** The total after a refill. */
async function refilled(meter: string, amount: unknown): Promise<string> {
  return (await must(200, refill(meter, amount))).body.billing.totalCredits;
}

async function codeOf(meter: string, amount: unknown): Promise<number> {
  return (await refill(meter, amount)).body.error.code;
}

async function total(id: string): Promise<string> {
  return (await must(200, world.call('get', `${PATH}/${id}`))).body.billing.totalCredits;
}
