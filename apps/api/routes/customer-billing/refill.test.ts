import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { MAX_MICROS, formatCredits } from '../../../../shared/values/credits.ts';
import { makeWorld, PATIENT, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/customer-billing';
let world: World;
let workspaceId: string;
const test = suite('refills');
test.before(async () => {
  world = await makeWorld(['api'], PATIENT);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body.workspace.id;
});
test.after(() => world?.stop());

test('each refill adds exactly its amount and writes one row of the ledger', async () => {
  const { id } = await newRecord('refilled', { totalCredits: '0.000001' });
  const refills = [1, 0.000001, 0.1, 0.2, 1234567.123456, 8_000_000_000];
  let total = 1;
  for (const refill of refills) {
    total += Math.round(refill * 1e6);
    const answer = await world.call('post', `${PATH}/refill`, { workspaceId, externalMeterId: 'refilled', refill });
    assert.is(answer.status, 200, answer.text);
    assert.is(answer.body.billing.totalCredits, formatCredits(total));
  }
  assert.is((await get('refilled')).body.billing.totalCredits, '8001234568.423458');

  const headers = { 'X-Request-Id': 'refill-7' };
  await world.call('post', `${PATH}/refill`, { workspaceId, externalMeterId: 'refilled', refill: 5 }, { headers });
  const lines: any[] = [];
  let cursor = '';
  do {
    const page = await world.call('get', `${PATH}/${id}/ledger?limit=3${cursor && `&cursor=${cursor}`}`);
    assert.is(page.status, 200, page.text);
    lines.push(...page.body.ledger);
    cursor = page.body.nextCursor ?? '';
  } while (cursor);
  assert.equal(
    lines.map((line) => line.amount),
    ['1', '0.000001', '0.1', '0.2', '1234567.123456', '8000000000', '5'],
  );
  const [last] = lines.slice(-1);
  const [token] = await world.sql`select id from access_tokens where team_id = ${world.team.id} order by id limit 1`;
  assert.match(last.id, /^ledger_[0-9a-z]{26}$/);
  assert.equal(last, {
    id: last.id,
    billingId: id,
    amount: '5',
    totalCredits: '8001234573.423458',
    tokenId: token!.id,
    requestId: 'refill-7',
    createdAt: last.createdAt,
  });
});

test('50 concurrent refills all count', async () => {
  const { id } = await newRecord('busy');
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      world.call('post', `${PATH}/refill`, { workspaceId, externalMeterId: 'busy', refill: i + 0.000001 }),
    ),
  );
  for (const answer of answers) assert.is(answer.status, 200, answer.text);
  assert.is(new Set(answers.map((answer) => answer.body.billing.totalCredits)).size, 50);
  assert.is((await get('busy')).body.billing.totalCredits, '1225.00005');
  const { ledger } = (await world.call('get', `${PATH}/${id}/ledger?limit=200`)).body;
  assert.is(ledger.length, 50);
  assert.is(ledger.at(-1).totalCredits, '1225.00005');
});

test('a refill repeated with its Idempotency-Key adds once, also when the repetitions are concurrent', async () => {
  const { id } = await newRecord('repeated');
  const body = { workspaceId, externalMeterId: 'repeated', refill: 2.5 };
  const headers = { 'Idempotency-Key': 'refill-once' };
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => world.call('post', `${PATH}/refill`, body, { headers })),
  );
  for (const answer of answers) assert.equal([answer.status, answer.body], [200, answers[0]!.body]);
  assert.is(answers[0]!.body.billing.totalCredits, '2.5');

  await world.call('post', `${PATH}/refill`, body);
  const again = await world.call('post', `${PATH}/refill`, body, { headers });
  assert.equal(again.body, answers[0]!.body, 'the first answer, not the record as it is by now');
  assert.is((await get('repeated')).body.billing.totalCredits, '5');
  assert.is((await world.call('get', `${PATH}/${id}/ledger`)).body.ledger.length, 2);
  const other = await world.call('post', `${PATH}/refill`, { ...body, refill: 3 }, { headers });
  assert.is(other.body.error.code, 40904);
});

test('no sum passes 9000000000', async () => {
  await newRecord('full', { totalCredits: '8999999999.999999' });
  assert.is((await refill('full', 0.000002)).body.error.code, 40006);
  assert.is((await refill('full', 9_000_000_000)).body.error.code, 40006);
  assert.is((await refill('full', 0.000001)).body.billing.totalCredits, formatCredits(MAX_MICROS));
  assert.is((await refill('full', 0.000001)).body.error.code, 40006);
});

test('a refill is decimal text or a JSON number, and text is exact where a number cannot be', async () => {
  await newRecord('text');
  for (const [amount, total] of [
    ['0.000001', '0.000001'],
    ['007.50', '7.500001'],
    [1.5, '9.000001'],
    ['8589934592.123457', '8589934601.123458'],
  ] as const) {
    const answer = await refill('text', amount);
    assert.equal([answer.status, answer.body.billing?.totalCredits], [200, total], answer.text);
  }
  assert.is((await refill('text', 8589934592.123457)).body.error.code, 40001, 'a double of this size is not exact');
  const { id } = (await get('text')).body.billing;
  const { ledger } = (await world.call('get', `${PATH}/${id}/ledger`)).body;
  assert.equal(
    ledger.map((line: { amount: string }) => line.amount),
    ['0.000001', '7.5', '1.5', '8589934592.123457'],
  );
});

test('a wrong amount is a 400 that names the field', async () => {
  await newRecord('bad');
  const numbers = [0, -1, 0.0000001, 1.0000001, 9_000_000_001, 1e300];
  const texts = ['0', '0.000000', '', ' 1', '+1', '-1', '1.', '.5', '1e3', '1,5', '1.0000001', '9000000000.000001'];
  for (const amount of [...numbers, ...texts, '9000000001', '٣', [1], true, null, undefined]) {
    const answer = await refill('bad', amount);
    assert.equal([answer.status, answer.body.error.code], [400, 40001], answer.text);
    assert.ok(
      answer.body.error.details.some(({ path }: { path: string }) => path === '/refill'),
      answer.text,
    );
  }
  assert.is((await get('bad')).body.billing.totalCredits, '0');
});

test.run();

async function newRecord(externalMeterId: string, settings: Record<string, unknown> = {}) {
  const answer = await world.call('post', PATH, { workspaceId, externalMeterId, ...settings });
  assert.is(answer.status, 201, answer.text);
  return answer.body.billing;
}

function get(externalMeterId: string) {
  return world.call('get', `${PATH}?${new URLSearchParams({ workspaceId, externalMeterId }).toString()}`);
}

function refill(externalMeterId: string, amount: unknown) {
  return world.call('post', `${PATH}/refill`, { workspaceId, externalMeterId, refill: amount });
}
