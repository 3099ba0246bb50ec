import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { carryOutcome, OTHER, outcomeRow, outcomeTable } from '../events/outcome.ts';
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
  ...more,
});
const unknown = call({ workspaceId: '', status: 'INVALID', reason: 'NOT_FOUND', keyId: '' });

function counted(calls: Iterable<CountedCall>): Record<string, string | number>[] {
  const minute = countMinute('boot', MINUTE);
  const cells = new Set<Cell>();
  for (const one of calls) cells.add(minute.count(one)!);
  const { columns } = outcomeTable('count');
  return [...cells].map(({ start, calls: sum }) => {
    const row = outcomeRow(carryOutcome(Buffer.from(`${start}${sum}}`).toString('latin1')));
    return Object.fromEntries(columns.map((column, i) => [column, row[i] as string | number]));
  });
}

const sumOf = (rows: Record<string, string | number>[]) => rows.reduce((sum, { calls }) => sum + Number(calls), 0);

test('calls that differ in nothing are one count', () => {
  const rows = counted([call(), call(), call({ limit: 'key/ü' }), call({ wouldRefuse: true })]);
  const told = rows.map(({ limited_by, would_refuse, calls }) => `${limited_by} ${would_refuse} ${calls}`);
  assert.equal(told, [' 0 2', 'key/ü 0 1', ' 1 1']);
  assert.equal([rows[0]!.minute, rows[0]!.boot], [MINUTE, 'boot']);
});

test('a team has at most 500 counts in a minute, the rest is counted under (other), and no call is lost, nor one of another team', () => {
  const flood = Array.from({ length: 20_000 }, (_, i) =>
    call({ keyId: `key_${i % 5_000}`, workspaceId: `ws_${i % 200}` }),
  );
  const ofOther = call({ teamId: 'team_2', keyId: 'key_of_2', limit: 'key/daily' });
  const rows = counted([...flood, unknown, unknown, ofOther]);
  assert.ok(rows.length <= 500, `${rows.length} counts`);
  assert.is(sumOf(rows), 20_003);
  assert.is(rows.find(({ reason }) => reason === 'NOT_FOUND')!.calls, 2, 'unknown keys have a count of their own');
  const others = rows.filter((row) => row.key_id === OTHER);
  assert.ok(others.some((row) => row.workspace_id !== '') && others.some((row) => row.workspace_id === ''));
  assert.ok(others.every(({ status, reason }) => status === 'DISABLED' && reason === 'DISABLED'));
  const second = rows.find(({ team_id }) => team_id === 'team_2')!;
  assert.equal([second.key_id, second.limited_by], ['key_of_2', 'key/daily']);
});

test('a process has a bounded number of counts, however many teams call', () => {
  const minute = countMinute('boot', MINUTE);
  const cells = new Set<Cell | undefined>();
  for (let i = 0; i < 100_000; i++) cells.add(minute.count(call({ teamId: `team_${i}` })));
  assert.ok(cells.size <= 40_001, `${cells.size} counts`);
});
