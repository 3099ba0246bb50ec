import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { joinWorld, once } from '../../../../tests/helpers/world.ts';
import { makeRecords } from '../../tests/helpers/records.ts';

const PATH = '/api/v1/customer-billing/refill';
const world = await joinWorld();
const records = await makeRecords(world);

test('each refill adds exactly its amount, a decimal text or a number, and writes one row of the ledger, which is read in pages', async () => {
  const { id, meter } = await records.record('0.000001');
  const refills = [
    [1, '1', '1.000001'],
    ['007.50', '7.5', '8.500001'],
    [0.000001, '0.000001', '8.500002'],
    [0.1, '0.1', '8.600002'],
    [0.2, '0.2', '8.800002'],
    ['8589934592.123457', '8589934592.123457', '8589934600.923459'],
  ] as const;
  for (const [amount, , total] of refills) assert.is((await records.refill(meter, amount)).billing.totalCredits, total);
  const asked = { workspaceId: records.workspaceId, externalMeterId: meter, refill: 5 };
  await must(200, world.call('post', PATH, asked, { headers: { ...once(), 'X-Request-Id': 'refill-7' } }));
  const pages = await readPages<any>(3, (query) => world.call('get', `${records.path(id)}/ledger?${query}`));
  const lines = pages.flat();
  assert.equal(
    lines.map((line) => line.amount),
    [...refills.map(([, amount]) => amount), '5'],
  );
  const last = lines.at(-1);
  const [token] = await world.sql`select id from access_tokens where team_id = ${world.team.id} order by id limit 1`;
  const told = { billingId: id, amount: '5', totalCredits: '8589934605.923459', tokenId: token!.id };
  assert.equal(last, { ...told, id: last.id, requestId: 'refill-7', createdAt: last.createdAt });
  assert.match(last.id, /^ledger_[0-9a-z]{26}$/);
});

test('a refill beside an open hold is in the total at once, before any call', async () => {
  const { id, meter, key } = await records.record('5');
  await records.customers.hold({ key }, '2');
  assert.is((await records.refill(meter, 3)).billing.totalCredits, '8');
  assert.equal(await records.amounts(id), ['8', '0', '6', '2', '0']);
});

test('concurrent refills all count', async () => {
  const { id, meter } = await records.record();
  const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => records.refill(meter, i + 0.000001)));
  assert.is(new Set(answers.map(({ billing }) => billing.totalCredits)).size, 12);
  const { ledger } = await records.get(`${records.path(id)}/ledger?limit=200`);
  assert.equal([ledger.length, ledger.at(-1).totalCredits], [12, '66.000012']);
  assert.is((await records.billing(id)).totalCredits, '66.000012');
});

test('a refill repeated with its Idempotency-Key adds once, also when the repetitions are concurrent', async () => {
  const { id, meter } = await records.record();
  const asked = { workspaceId: records.workspaceId, externalMeterId: meter, refill: 2.5 };
  const headers = once();
  const repeat = () => must(200, world.call('post', PATH, asked, { headers }));
  const [first, ...others] = await Promise.all(Array.from({ length: 5 }, repeat));
  assert.is(first!.body.billing.totalCredits, '2.5');
  await records.refill(meter, 2.5);
  for (const answer of [...others, await repeat()])
    assert.equal(answer.body, first!.body, 'the first answer, not the record as it is by now');
  assert.is((await records.billing(id)).totalCredits, '5');
  assert.is((await records.get(`${records.path(id)}/ledger`)).ledger.length, 2);
});

test('a number that is no exact amount, and a text that is none, is refused', async () => {
  const { id, meter } = await records.record();
  const numbers = [0, -1, 0.0000001, 1.0000001, 9_000_000_001, 1e300, 8589934592.123457];
  const texts = ['0', '0.000000', ' 1', '+1', '1.', '1e3', '1.0000001', '9000000000.000001', '٣'];
  for (const refill of [...numbers, ...texts])
    assert.is(
      await records.refused(PATH, { workspaceId: records.workspaceId, externalMeterId: meter, refill }),
      40001,
      String(refill),
    );
  assert.is((await records.billing(id)).totalCredits, '0');
});
