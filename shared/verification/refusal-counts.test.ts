import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { carryOutcome, OTHER, outcomeTable } from '../events/outcome.ts';
import { twoOfOneNumber } from '../../tests/helpers/same-number.ts';
import { countMinute, type Cell, type CountedCall } from './refusal-counts.ts';

const MINUTE = 1_795_162_200;
const call = (more: Partial<CountedCall> = {}): CountedCall => ({
  teamId: 'team_1',
  workspaceId: 'ws_1',
  status: 'DISABLED',
  reason: 'DISABLED',
  limit: '',
  wouldRefuse: false,
  keyId: 'key_1',
  customerId: 'c1',
  route: 'GET /',
  ...more,
});
const unknown = call({ workspaceId: '', status: 'INVALID', reason: 'NOT_FOUND', keyId: '', customerId: '', route: '' });

/** Counts calls, and gives the rows that they become, as objects. */
function counted(calls: Iterable<CountedCall>): Record<string, string | number>[] {
  const minute = countMinute('boot', MINUTE);
  const cells = new Set<Cell>();
  for (const one of calls) cells.add(minute.count(one)!);
  const { columns } = outcomeTable('count');
  return [...cells].map(({ start, calls: sum }) => {
    const { row } = carryOutcome(Buffer.from(`${start}${sum}}`).toString('latin1'));
    return Object.fromEntries(columns.map((column, i) => [column, row[i]!]));
  });
}

const sumOf = (rows: Record<string, string | number>[]) => rows.reduce((sum, { calls }) => sum + Number(calls), 0);

test('calls whose names have one number are counted apart', () => {
  const start = countMinute('boot', MINUTE).count(call({ route: '' }))!.name;
  const routes = twoOfOneNumber((i) => start + i).map(String);
  const rows = counted([...routes, ...routes, routes[1]!].map((route) => call({ route })));
  assert.equal(
    rows.map(({ route, calls }) => [route, calls]),
    [
      [routes[0], 2],
      [routes[1], 3],
    ],
  );
});

test('calls that differ in nothing are one count', () => {
  const rows = counted([call(), call(), call({ route: 'GET /ü' })]);
  assert.equal(
    rows.map(({ route, calls }) => [route, calls]),
    [
      ['GET /', 2],
      ['GET /ü', 1],
    ],
  );
  assert.equal([rows[0]!.minute, rows[0]!.boot, rows[0]!.would_refuse], [MINUTE, 'boot', 0]);
});

test('a key has a few counts by route, and the rest of it under (other): one key hides no other', () => {
  const routes = Array.from({ length: 10_000 }, (_, i) => call({ route: `GET /${i}` }));
  const rows = counted([...routes, call({ keyId: 'key_2', customerId: 'c2' })]);
  const noisy = rows.filter((row) => row.key_id === 'key_1');
  assert.ok(noisy.length <= 21, `${noisy.length} counts of one key`);
  assert.is(sumOf(noisy), 10_000);
  assert.is(noisy.find(({ route }) => route === OTHER)!.customer_id, 'c1');
  assert.is(rows.find((row) => row.key_id === 'key_2')!.route, 'GET /');
});

test('a team has at most 500 counts in a minute, the rest is counted under (other), and no call is lost', () => {
  const calls = Array.from({ length: 20_000 }, (_, i) =>
    call({ keyId: `key_${i % 5_000}`, workspaceId: `ws_${i % 200}`, route: `GET /${i}` }),
  );
  const rows = counted([...calls, unknown, unknown]);
  assert.ok(rows.length <= 500, `${rows.length} counts`);
  assert.is(sumOf(rows), 20_002);
  assert.is(rows.find(({ reason }) => reason === 'NOT_FOUND')!.calls, 2, 'unknown keys have a count of their own');
  const others = rows.filter((row) => row.key_id === OTHER);
  assert.ok(others.some((row) => row.workspace_id !== '') && others.some((row) => row.workspace_id === ''));
  assert.ok(others.every(({ status, reason }) => status === 'DISABLED' && reason === 'DISABLED'));
});

test('the counts of one team leave room for the key and limit of another', () => {
  const flood = Array.from({ length: 20_000 }, (_, i) => call({ keyId: `key_${i % 5_000}`, route: `GET /${i}` }));
  const rows = counted([...flood, call({ teamId: 'team_2', keyId: 'key_of_2', limit: 'key/daily' })]);
  assert.equal(
    rows.filter(({ team_id }) => team_id === 'team_2').map((row) => [row.key_id, row.limited_by]),
    [['key_of_2', 'key/daily']],
  );
});

test('long routes take no more room than short ones', () => {
  const rows = counted(
    Array.from({ length: 5_000 }, (_, i) => call({ keyId: `key_${i}`, route: `${i} ${'r'.repeat(1_000)}` })),
  );
  assert.ok(JSON.stringify(rows).length < 300_000);
  assert.is(sumOf(rows), 5_000);
});

test('a process has a bounded number of counts, however many teams call', () => {
  const minute = countMinute('boot', MINUTE);
  const cells = new Set<Cell | undefined>();
  for (let i = 0; i < 100_000; i++) cells.add(minute.count(call({ teamId: `team_${i}` })));
  assert.ok(cells.size <= 40_001, `${cells.size} counts`);
});
