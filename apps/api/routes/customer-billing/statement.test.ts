import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { spanOfMonth } from '../../../../shared/books/statements/span.ts';
import { makeStatements } from '../../../../shared/books/statements/statements.ts';
import { addsUp } from '../../../../tests/helpers/adds-up.ts';
import { backdate, backdateRows } from '../../../../tests/helpers/backdate.ts';
import { carryAll } from '../../../../tests/helpers/carry.ts';
import { passTime, recordOf } from '../../../../tests/helpers/pass-time.ts';
import { makeRecords, type Records } from '../../tests/helpers/records.ts';
import { callsOf, columns, makeWorld, must, refused } from '../../tests/helpers/calls.ts';

const HOUR = 3_600_000;
const at = Date.parse;
// Its test carries events, when it has given them their times.
const world = await makeWorld(['verify']);
const { books, redis } = world;
const { ask } = callsOf(world);

// The first one: what was carried once leaves nothing on its way.
test('a statement says that events are on their way, that the books differ, by how much, and what was lost', async () => {
  const records = await newRecords();
  const { id, key } = await records.record('100');
  for (const usage of ['1', '2', '4']) await records.spend(key, usage);
  const month = new Date().toISOString().slice(0, 7);
  const stores = { sql: world.sql, redis, books };
  const proof = async () => {
    const billings = [await recordOf(world.sql, id)];
    const span = spanOfMonth(month, 'UTC', undefined);
    const wanted = { workspaceId: records.workspaceId, billings, span, nowMs: Date.now(), patienceMs: 0 };
    return (await makeStatements(stores, wanted)).statements[0]!.proof;
  };
  assert.equal(await proof(), { status: 'PENDING', pendingEvents: 3 });
  await carryAll(stores);
  await exact(records, id, `month=${month}`);
  await records.adjust(id, '-1');
  await carryAll(stores);
  await exact(records, id, `month=${month}`);
  await books.client.command({
    query: `alter table usage_events delete where billing_id = '${id}' and seq = 2 settings mutations_sync = 2`,
  });
  const differences = [{ what: 'used credits that the books lack', credits: '2' }];
  assert.equal((await statement(records, id, `month=${month}`)).proof, { status: 'DIFFERENT', differences });

  await world.sql`
    insert into usage_losses (billing_id, epoch, after_seq, events, amount_micros, found_at)
    values (${id}, 0, 7, 3, 2500000, '2026-09-07T12:00:00Z')`;
  const { movements } = await statement(records, id, 'month=2026-09');
  const loss = { day: '2026-09-07', kind: 'loss', name: '', balance: 'used', amount: '0', events: 3, lost: '2.5' };
  assert.equal(movements, [loss], 'it is a memo that adds nothing');
});

test('a month tells each movement between its opening and closing balances, in the order of day, kind and name', async () => {
  const records = await newRecords();
  const { id, key } = await records.record('100');
  const { workspaceId } = records;
  const spend = (usage: string, usageName: string) => records.spend(key, usage, { usageName });
  await spend('1.5', 'tokens');
  await backdate(redis, at('2026-09-12T10:00Z'));
  await backdateRows(world.sql, workspaceId, at('2026-09-10T00:00Z'));

  const expiresAt = Date.now() + HOUR;
  const short = await records.granted(id, { credits: '10', name: 'promo', expiresAt, priority: 1 });
  const wrong = await records.granted(id, { credits: '7', name: 'by mistake', priority: 60 });
  await records.voided(id, wrong);
  for (const [usage, name] of Object.entries({ '0.000001': 'tokens', '2': 'calls', '0.25': 'tokens' }))
    await spend(usage, name);
  await backdate(redis, at('2026-10-02T23:59:59Z'));
  await backdateRows(world.sql, workspaceId, at('2026-10-02T08:00Z'));
  await passTime(world, redis, id, 2 * HOUR);
  await backdate(redis, at('2026-10-31T12:00Z'));
  const told = { usageName: 'tokens', reason: '=wrong', day: '2026-10-05' };
  const { id: eventId, tokenId } = await records.adjust(id, '-0.25', told);
  await spend('4', 'tokens');
  await backdate(redis, at('2026-11-05T12:00Z'));
  await carryAll({ sql: world.sql, redis, books });

  const made = await exact(records, id, 'month=2026-10');
  assert.equal(made.opening, { total: '100', used: '1.5', expired: '0', remaining: '98.5' });
  const used = { day: '2026-10-02', kind: 'usage', balance: 'used' };
  const adjusted = { day: '2026-10-05', kind: 'adjustment' };
  assert.equal(made.movements, [
    { day: '2026-10-02', kind: 'granted', name: 'by mistake', balance: 'total', amount: '7', grantId: wrong },
    { day: '2026-10-02', kind: 'granted', name: 'promo', balance: 'total', amount: '10', grantId: short },
    { day: '2026-10-02', kind: 'voided', name: 'by mistake', balance: 'expired', amount: '7', grantId: wrong },
    { ...used, name: 'calls', amount: '2', events: 1 },
    { ...used, name: 'tokens', amount: '0.250001', events: 2 },
    { ...used, ...adjusted, name: 'tokens', amount: '-0.25', eventId, tokenId, reason: '=wrong' },
    { day: '2026-10-31', kind: 'expired', name: 'promo', balance: 'expired', amount: '7.749999', grantId: short },
  ]);
  assert.equal(made.closing, { total: '117', used: '3.500001', expired: '14.749999', remaining: '98.75' });
  addsUp(made);
  assert.equal([made.from, made.to, made.timezone, made.closed], ['2026-10-01', '2026-10-31', 'UTC', false]);

  const september = await exact(records, id, 'month=2026-09');
  assert.equal(september.closing, made.opening);
  const range = await exact(records, id, 'from=2026-10-03&to=2026-11-30');
  assert.is(range.opening.used, '3.750001');
  assert.is(range.closing.used, (await records.billing(id)).usedCredits);
  addsUp(range);

  const path = `${records.path(id)}/statement?month=2026-10&format=csv`;
  const lines = (await must(200, world.call('get', path))).text.split('\r\n');
  assert.is(lines[0], 'day,kind,name,balance,amount,events,grantId,eventId,tokenId,reason,month');
  assert.is(lines[1], '2026-10-01,opening,,total,100,,,,,,');
  assert.ok(lines.includes(`2026-10-05,adjustment,tokens,used,-0.25,,,${eventId},${tokenId},'=wrong,`));
  assert.equal(lines.slice(-3), ['2026-10-31,closing,,remaining,98.75,,,,,,', '2026-10-31,proof,EXACT,,,,,,,,', '']);
});

test("days and months are those of the workspace's time zone, and a name may read like the sum of very many names", async () => {
  const records = await newRecords('Asia/Kathmandu');
  const { id, key } = await records.record('100');
  await backdateRows(world.sql, records.workspaceId, at('2026-08-10T00:00Z'));
  // The last second of a month there, and the first of the next.
  for (const [i, day] of ['2026-09-30', '2026-09-30', '2026-10-31', '2026-10-31'].entries()) {
    await records.spend(key, String(2 ** i), { usageName: '(all)' });
    await backdate(redis, at(`${day}T18:${i % 2 === 0 ? '14:59' : '15:00'}Z`));
  }
  await records.adjust(id, '16', { usageName: 'tokens', day: '2026-10-31' });
  await records.adjust(id, '32', { usageName: 'tokens', day: '2026-11-01' });
  await carryAll({ sql: world.sql, redis, books });
  const made = await exact(records, id, 'month=2026-10');
  assert.equal(columns(made.movements, 'day', 'kind', 'name', 'amount'), [
    ['2026-10-01', 'usage', '(all)', '2'],
    ['2026-10-31', 'usage', '(all)', '4'],
    ['2026-10-31', 'adjustment', 'tokens', '16'],
  ]);
  assert.equal([made.opening.used, made.closing.used], ['1', '23']);
});

test('a statement needs both permissions, and a month or a range of at most 366 days', async () => {
  const records = await newRecords();
  const path = `${records.path((await records.record()).id)}/statement`;
  for (const permission of ['billing:read', 'usage:read'] as const) {
    const token = await world.newToken(world.team.id, [permission]);
    await refused(40301, callsOf(world, token).ask('get', `${path}?month=2026-10`), permission);
  }
  const alone = ['', 'month=2026-13', 'month=2026-10&from=2026-10-01', 'from=2026-10-01'];
  for (const query of [...alone, 'from=2026-10-02&to=2026-10-01', 'from=2025-01-01&to=2026-01-02'])
    await refused(40001, ask('get', `${path}?${query}`), query);
});

async function newRecords(timezone = 'UTC'): Promise<Records> {
  const records = await makeRecords(world, { timezone });
  // Its workspace closes no month by itself, however long ago it was made.
  await world.sql`update workspaces set month_due_at = 9000000000000000 where id = ${records.workspaceId}`;
  return records;
}

async function statement(records: Records, id: string, query: string) {
  return (await records.get(`${records.path(id)}/statement?${query}`)).statement;
}

async function exact(records: Records, id: string, query: string) {
  const made = await statement(records, id, query);
  assert.is(made.proof.status, 'EXACT', JSON.stringify(made.proof));
  return made;
}
