import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { check } from './check.ts';
import type {
  ChangeKind,
  Changed,
  Detail,
  Granted,
  Happened,
  Held,
  Line,
  Record_,
  Settled,
  StatementLine,
  Verified,
  WindowLimit,
} from '../history.ts';

// Each rule is broken once, in a history that is right but for that.

test('a history without errors breaks no rule', () => {
  assert.equal(rules(history()), []);
});

test('a balance that is not the sum of its events is found', () => {
  assert.equal(rules([...history(), record({ usedMicros: 7 })]), ['balance = books']);
});

test('a VALID call that is missing in the books is found, and one that is there twice', () => {
  const lost = record({ usedMicros: 1, rows: [row('a', 1)], reportedLost: 1 });
  assert.equal(rules([valid('a', 1), valid('b', 2), lost]), ['every VALID is debited once']);
  const twice = record({ usedMicros: 2, rows: [{ ...row('a', 2), events: 2 }] });
  assert.equal(rules([valid('a', 1), twice]), ['every VALID is debited once']);
  const wrong = record({ usedMicros: 2, rows: [row('a', 2)] });
  assert.equal(rules([valid('a', 1), wrong]), ['every VALID is debited once']);
});

test('an undecided call may be debited once, not twice', () => {
  const asked = verified({ call: 'a', http: 503, code: 50305 });
  assert.equal(rules([asked, record({ usedMicros: 0, rows: [] })]), []);
  assert.equal(rules([asked, record({ usedMicros: 1, rows: [row('a', 1)] })]), []);
  assert.equal(rules([asked, record({ usedMicros: 2, rows: [{ ...row('a', 2), events: 2 }] })]), [
    'every VALID is debited once',
  ]);
});

test('a debit of a refused call is found, and one of a call that no client made', () => {
  const debited = record({ usedMicros: 1, rows: [row('a', 1)] });
  const limited = verified({ call: 'a', http: 200, status: 'USAGE_LIMITED', usedMicros: 1_000, limitMicros: 1_000 });
  assert.equal(rules([limited, debited]), ['a refused call costs nothing']);
  assert.equal(rules([verified({ call: 'a', http: 503, code: 50306 }), debited]), ['a refused call costs nothing']);
  assert.equal(rules([debited]), ['debits ≤ VALID + undecided']);
});

test('a call that a frozen Redis kept waiting costs nothing', () => {
  const asked = verified({ call: 'a', from: 110, to: 120, http: 503, code: 50305 });
  const frozen: Line = { type: 'span', phase: 1, fault: 'f', what: 'redis-frozen', from: 100, to: 200 };
  const debited = record({ usedMicros: 1, rows: [row('a', 1)] });
  assert.equal(rules([asked, frozen, debited]), ['a refused call costs nothing']);
  assert.equal(rules([asked, debited]), []);
});

test('an emptied Redis may lose only the events that it held', () => {
  const books = record({ usedMicros: 0, rows: [] });
  const emptied: Line = { type: 'emptied', phase: 1, at: 500, held: ['a'] };
  assert.equal(rules([valid('a', 1), emptied, { ...books, reportedLost: 1 }]), []);
  assert.equal(rules([valid('a', 1), emptied, books]), ['losses are reported']);
  assert.equal(rules([valid('b', 1), emptied, { ...books, reportedLost: 1 }]), ['every VALID is debited once']);
});

test('a record of which the service never says what it lost is told as that, and nothing is made of it', () => {
  const emptied: Line = { type: 'emptied', phase: 1, at: 500, held: ['a'] };
  const unanswered = { ...record({ usedMicros: 0, rows: [] }), found: 'UNKNOWN' };
  assert.equal(rules([valid('a', 1), emptied, unanswered]), ['the service answers in the end']);
});

test('a restore may take back what came since the backup began, and nothing before', () => {
  const restored: Line = { type: 'restored', phase: 1, backupFrom: 100, at: 500 };
  const books = record({ usedMicros: 0, rows: [] });
  const since = verified({ call: 'a', usedMicros: 1, from: 200, to: 210 });
  assert.equal(rules([since, restored, books]), []);
  assert.equal(rules([valid('a', 1), restored, books]), ['every VALID is debited once', 'losses are reported']);
  const after = verified({ call: 'a', usedMicros: 1, from: 600, to: 610 });
  assert.equal(rules([after, restored, books]), ['every VALID is debited once', 'losses are reported']);
  assert.equal(rules([since, restored, record({ usedMicros: 1, rows: [] })]), ['balance = books']);

  const disable = (from: number) => changed('key.disable', 'key', {}, { from, to: from + 10 });
  const asked = verified({ call: 'a', billing: '', from: 600, to: 610 });
  assert.equal(rules([disable(200), restored, asked]), []);
  assert.equal(rules([disable(50), restored, asked]), ['what is gone stays gone']);
  assert.equal(rules([disable(550), restored, asked]), ['what is gone stays gone']);

  const gone = { type: 'entity', phase: 1, id: 'key', http: 404 } as const;
  const made = (from: number) => changed('key.create', 'key', { name: 'k' }, { from, to: from + 10 });
  assert.equal(rules([made(200), restored, gone]), []);
  assert.equal(rules([made(50), restored, gone]), ['no answered change is lost']);
});

test('a record that can not be read is answered 503 and nothing else', () => {
  const span: Line = { type: 'span', phase: 1, fault: 'f', what: 'poisoned', from: 0, to: 900, billing: 'bill' };
  const refused = verified({ call: 'a', http: 503, code: 50301 });
  assert.equal(rules([refused, span]), []);
  const limited = verified({ call: 'a', status: 'USAGE_LIMITED', usedMicros: 1_000, limitMicros: 1_000 });
  assert.equal(rules([limited, span]), ['what is unknown is 503']);
  assert.equal(rules([verified({ call: 'a', billing: 'other' }), span]), []);
});

test('an adjustment that is not booked is found, and one that is booked twice', () => {
  const adjusted = changed('billing.adjust', 'bill', { amountMicros: -5, usageName: 'fix' });
  const books = (micros: number) => record({ usedMicros: micros, rows: [{ ...row('fix', micros), events: 0 }] });
  assert.equal(rules([adjusted, books(-5)]), []);
  assert.equal(rules([adjusted, books(-10)]), ['an adjustment counts once']);
  assert.equal(rules([adjusted, record({ rows: [] })]), ['an adjustment counts once']);
  const { http: _, ...open } = adjusted;
  assert.equal(rules([open, record({ rows: [] })]), []);
});

test('a record that the service itself reports as not exact is found', () => {
  const calls = history().slice(0, 2);
  assert.equal(rules([...calls, record({ usedMicros: 3, found: 'MISSING' })]), ['the service finds itself exact']);
});

test('the same credits taken twice are found, and a balance that decreased', () => {
  const both = record({ usedMicros: 2, rows: [row('a', 1), row('b', 1)] });
  const overlapping = [verified({ call: 'a', usedMicros: 1, to: 20 }), verified({ call: 'b', usedMicros: 1, to: 20 })];
  assert.equal(rules([...overlapping, both]), ['no credits are taken twice']);
  const back = [
    verified({ call: 'a', usedMicros: 2, to: 20 }),
    verified({ call: 'b', usedMicros: 1, from: 30, to: 40 }),
  ];
  assert.equal(rules([...back, both]), ['a balance never goes back']);
});

test('a limit that was passed is found, and a refusal below the limit', () => {
  const books = record({ usedMicros: 1, rows: [row('a', 1)] });
  assert.equal(rules([verified({ call: 'a', usedMicros: 1, limitMicros: 0 }), books]), ['no limit is passed']);
  assert.equal(rules([valid('a', 1), { ...books, limitMicros: 0 }]), ['no limit is passed']);
  const early = verified({ call: 'a', status: 'USAGE_LIMITED', usedMicros: 1, limitMicros: 10 });
  assert.equal(rules([early]), ['no limit is invented']);
  assert.equal(rules([verified({ call: 'a', status: 'RATE_LIMITED' })]), ['no limit is invented']);
  const made = changed('key.create', 'key', { ratePerSecond: 2 });
  const quick = [0, 1, 2, 3].map((i) => verified({ call: String(i), billing: '', from: 100 + i, to: 102 + i }));
  assert.equal(rules([made, ...quick]), ['no limit is passed']);
});

test('a hold costs what it was captured with, once', () => {
  const capture = settled('capture', { micros: 3 });
  const rule = 'every capture is debited once';
  assert.equal(rules([held(), capture, capture, cost(3)]), []);
  assert.equal(rules([held(), capture, cost(0)]), [rule]);
  assert.equal(rules([held(), capture, cost(6)]), [rule]);
  const other = settled('capture', { micros: 4, from: 50, to: 60 });
  assert.equal(rules([held(), capture, { ...other, http: 409 }, cost(3)]), []);
  assert.equal(rules([held(), capture, other, cost(3)]), ['a hold is captured once']);
  const late = settled('capture', { micros: 3, from: 2_000, to: 2_010 });
  assert.equal(rules([held({ onExpiry: 'charge' }), late, cost(3)]), []);
  assert.equal(rules([held({ onExpiry: 'charge' }), late, cost(8)]), [rule]);
});

test('a hold that nobody captures costs what its end says, and a released or refused one nothing', () => {
  const rule = 'a hold costs what it did cost';
  assert.equal(rules([held(), cost(0)]), []);
  assert.equal(rules([held(), cost(5)]), [rule]);
  assert.equal(rules([held({ onExpiry: 'charge' }), cost(5)]), []);
  assert.equal(rules([held({ onExpiry: 'charge' }), cost(0)]), [rule]);
  assert.equal(rules([held({ onExpiry: 'charge' }), settled('release'), cost(5)]), [rule]);
  const { hold: _, ...refused } = held({ status: 'USAGE_LIMITED', onExpiry: 'charge' });
  assert.equal(rules([refused, cost(5)]), [rule]);
  assert.equal(rules([cost(5)]), ['debits ≤ VALID + undecided']);
});

test('a capture without an answer may be there or not, and a hold without one too', () => {
  const undecided = settled('capture', { micros: 3, http: undefined, error: 'cut' });
  for (const micros of [0, 3]) assert.equal(rules([held(), undecided, cost(micros)]), []);
  assert.equal(rules([held(), undecided, cost(6)]), ['a hold costs what it did cost']);
  const unopened = held({ http: 503, status: '', onExpiry: 'charge' });
  for (const micros of [0, 5]) assert.equal(rules([unopened, cost(micros)]), []);
});

test('a capture that a lost Redis held may be lost, where that is told, and no other', () => {
  const capture = settled('capture', { micros: 3 });
  const emptied = (call: string): Line => ({ type: 'emptied', phase: 1, at: 500, held: [call] });
  assert.equal(rules([held(), capture, emptied('h'), cost(0, { reportedLost: 1 })]), []);
  assert.equal(rules([held(), capture, emptied('h'), cost(0)]), ['losses are reported']);
  const rule = 'every capture is debited once';
  assert.equal(rules([held(), capture, emptied('x'), cost(0, { reportedLost: 1 })]), [rule]);
  const after = settled('capture', { micros: 3, from: 600, to: 610 });
  assert.equal(rules([held(), after, emptied('h'), cost(0, { reportedLost: 1 })]), [rule]);
  assert.equal(rules([held(), capture, emptied('h'), cost(6)]), [
    'a hold costs what it did cost',
    'losses are reported',
  ]);
});

test('credits that are held after the end of all holds are found', () => {
  assert.equal(rules([held(), cost(0, { heldMicros: 5 })]), ['held is 0 once all holds have ended']);
});

test('amounts that do not make the total are found', () => {
  assert.equal(rules([...history(), record({ usedMicros: 3, totalMicros: 0, availableMicros: 0 })]), [
    'total = used + available + held + expired',
  ]);
});

test('a grant that gives more than it has is found, and a balance that its grants do not make', () => {
  const books = (grant: Granted, given: Partial<Record_> = {}) => {
    const amounts = { usedMicros: 3, totalMicros: 10, expiredMicros: 7, proofMicros: 0, grants: [grant] };
    return [...history().slice(0, 2), record({ ...amounts, ...given })];
  };
  const [gives, makes] = ['no grant gives more than it has', 'the grants make the balance'];
  assert.equal(rules(books(granted())), []);
  assert.equal(rules(books(granted({ usedMicros: 13, expiredMicros: -3 }))), [gives, makes]);
  assert.equal(rules(books(granted({ usedMicros: 4 }))), [gives]);
  assert.equal(rules(books(granted({ expiredMicros: 14 }))), [makes]);
  assert.equal(rules(books(granted({ micros: 11 }))), [makes]);
  assert.equal(rules(books(granted({ state: 'PENDING' }))), [makes]);
  assert.equal(rules(books(granted(), { proofMicros: 1 })), ['the grants prove the balance']);
  const { proofMicros: _, ...unproved } = record({ ...books(granted()).at(-1) } as Record_);
  assert.equal(rules([...history().slice(0, 2), unproved]), ['the grants prove the balance']);
});

test('a grant that is lost is found, one that is there twice, and one that is no longer voided', () => {
  const made = changed('grant.create', 'bill', { name: 'g', amountMicros: 10 });
  const voided = changed('grant.void', 'bill', { name: 'g' });
  const books = (...grants: Granted[]) => {
    const sum = (of: (grant: Granted) => number) => grants.reduce((total, grant) => total + of(grant), 0);
    const amounts = { totalMicros: sum(({ micros }) => micros), expiredMicros: sum((one) => one.expiredMicros) };
    return record({ usedMicros: 0, rows: [], ...amounts, proofMicros: 0, grants });
  };
  const grant = granted({ usedMicros: 0, expiredMicros: 10 });
  const rule = 'no answered change is lost';
  assert.equal(rules([made, books(grant)]), []);
  assert.equal(rules([made, books()]), [rule]);
  assert.equal(rules([made, books(grant, grant)]), [rule]);
  assert.equal(rules([made, voided, books(grant)]), [rule]);
  assert.equal(rules([made, voided, books({ ...grant, state: 'VOIDED' })]), []);
});

test('a limit over a window that was passed is found, and a refusal below it', () => {
  const limit = (most: number, per: WindowLimit['per']): Line =>
    changed('key.create', 'key', { limits: [{ name: 'l', unit: 'credits', most, per }] });
  const passed = 'no limit over a window is passed';
  const [a, b] = [valid('a', 1), valid('b', 3, 2)];
  for (const per of ['second', 'minute', 'day'] as const) {
    assert.equal(rules([limit(3, per), ...history()]), [], per);
    assert.equal(rules([limit(2, per), ...history()]), [passed], per);
  }
  assert.equal(rules([limit(2, 'second'), a, { ...b, from: 990, to: 1_000 }, record({ usedMicros: 3 })]), []);
  const emptied: Line = { type: 'emptied', phase: 1, at: 500, held: ['a'] };
  const lost = record({ usedMicros: 2, rows: [row('b', 2)], reportedLost: 1 });
  assert.equal(rules([limit(2, 'day'), a, emptied, { ...b, usedMicros: 2, from: 600, to: 610 }, lost]), []);
  // After an older Redis: what passes before its balance has all that is booked is explained, and nothing later.
  const older: Line = { type: 'emptied', phase: 1, at: 500, held: [] };
  const late = (from: number, usedMicros: number) => ({ ...b, usedMicros, from, to: from + 10 });
  const both = record({ usedMicros: 3, rows: [row('a', 1), row('b', 2)] });
  assert.equal(rules([limit(2, 'day'), a, older, late(600, 2), both]), []);
  const withC = record({ usedMicros: 3, rows: [row('a', 1), row('b', 2), row('c', 0)] });
  const between = { ...valid('c', 1, 0), from: 600, to: 610 };
  assert.equal(rules([limit(2, 'day'), a, older, between, late(5_000, 3), withC]), [passed]);
  const refused = (micros: number) =>
    verified({ call: 'c', from: 700, to: 710, status: 'USAGE_LIMITED', limitedBy: 'l', costMicros: micros });
  assert.equal(rules([limit(4, 'day'), ...history(), refused(2)]), []);
  assert.equal(rules([limit(4, 'day'), ...history(), refused(1)]), ['no limit is invented']);
});

test('a VALID answer for a deleted key is found, and a refusal of a good key', () => {
  for (const [what, detail] of [
    ['key.delete', {}],
    ['key.disable', {}],
    ['key.rotate', { secretIndex: 1 }],
  ] as const) {
    const done = changed(what, 'key', detail, { from: 100, to: 200 });
    const asked = (from: number, to: number, status: string) => verified({ call: 'a', billing: '', from, to, status });
    assert.equal(rules([done, asked(201, 202, 'VALID')]), ['what is gone stays gone'], what);
    assert.equal(rules([done, asked(150, 250, 'VALID')]), [], what);
    assert.equal(rules([done, asked(50, 99, 'INVALID')]), ['what is good stays good'], what);
  }
  assert.equal(rules([verified({ call: 'a', billing: '', status: 'INVALID' })]), ['what is good stays good']);
  const back = [
    changed('key.disable', 'key', {}, { change: 'off', from: 100, to: 200 }),
    changed('key.enable', 'key', {}, { change: 'on', from: 300, to: 400 }),
  ];
  assert.equal(rules([...back, verified({ call: 'a', billing: '', from: 500, to: 501, status: 'DISABLED' })]), [
    'what is good stays good',
  ]);
});

test('a key is EXPIRED from its expiry on, not before', () => {
  const made = changed('key.create', 'key', { expiresAtMs: 5_000 });
  const asked = (from: number, status: string) => verified({ call: 'a', billing: '', from, to: from + 1, status });
  assert.equal(rules([made, asked(6_000, 'VALID')]), ['what is gone stays gone']);
  assert.equal(rules([made, asked(4_000, 'EXPIRED')]), ['what is good stays good']);
  assert.equal(rules([made, asked(4_000, 'VALID'), asked(6_000, 'EXPIRED')]), []);
});

test('a revoked access token that is accepted is found, and one that is refused before', () => {
  const revoked = changed('token.revoke', 'tok', {}, { from: 100, to: 200 });
  const asked = (from: number, http: number) =>
    verified({ call: 'a', billing: '', token: 'tok', from, to: from + 1, http, ...(http === 401 && { status: '' }) });
  assert.equal(rules([revoked, asked(2_000, 200)]), ['what is gone stays gone']);
  assert.equal(rules([revoked, asked(50, 401)]), ['what is good stays good']);
  assert.equal(rules([revoked, asked(2_000, 401)]), []);
});

test('an answered change that is lost is found', () => {
  const rename = changed('key.rename', 'key', { name: 'new' });
  const key = { type: 'entity', phase: 1, id: 'key', http: 200, name: 'new', enabled: true, deleted: false } as const;
  const rule = 'no answered change is lost';
  assert.equal(rules([rename, key]), []);
  assert.equal(rules([rename, { ...key, name: 'old' }]), [rule]);
  assert.equal(rules([rename, { ...key, http: 404 }]), [rule]);
  assert.equal(rules([rename, changed('key.delete', 'key', {}, { change: 'd' }), key]), [rule]);
  assert.equal(rules([rename, { ...key, deleted: true }]), [rule]);
});

test('a refill that is lost is found, one that is there twice, and one that is not in force', () => {
  const refill = changed('billing.refill', 'bill', { amountMicros: 5 });
  const books = (refillsMicros: number[]) =>
    record({ rows: [], usedMicros: 0, refillsMicros, totalMicros: refillsMicros.length * 5 });
  const rule = 'no answered change is lost';
  assert.equal(rules([refill, books([5])]), []);
  assert.equal(rules([refill, books([])]), [rule]);
  assert.equal(rules([refill, books([5, 5])]), [rule]);
  assert.equal(rules([refill, { ...books([5]), totalMicros: 6, availableMicros: 6 }]), [rule]);
  const asked = verified({ call: 'a', from: 300, to: 301, status: 'USAGE_LIMITED', totalMicros: 0, limitMicros: 0 });
  assert.equal(rules([refill, asked, books([5])]), [rule]);
});

test('a key or the end of a hold of which no webhook was told is found', () => {
  const hold = `hold_${Buffer.from('a 01k9 b').toString('base64url')}`;
  const lines = [changed('key.create', 'key', {}), held({ hold, from: 110 }), cost(0)];
  const told = (...events: Happened[]) => [...lines, { type: 'told', phase: 1, since: 50, events } as const];
  const created = { type: 'key.created', subject: 'key' };
  const ended = { type: 'hold.expired', subject: 'evt_01k9' };
  assert.equal(rules(told(created, ended)), []);
  assert.equal(rules(told(ended)), ['webhooks are told what happens']);
  assert.equal(rules(told(created)), ['webhooks are told what happens']);
  // One that was settled, and what came before there was a webhook.
  assert.equal(rules([...told(created), settled('release')]), []);
  assert.equal(rules([...lines, { type: 'told', phase: 1, since: 300, events: [] }]), []);
});

test('slow answers, unclear errors and programs that do not return are found', () => {
  const late = verified({ call: 'a', http: 503, from: 0, to: 3_100 });
  assert.equal(rules([late]), ['deadlines hold']);
  assert.equal(rules([verified({ call: 'a', http: undefined, error: 'no answer' })]), ['deadlines hold']);
  assert.equal(rules([verified({ call: 'a', http: 500 })]), ['errors are clear']);
  assert.equal(rules([{ type: 'finding', phase: 1, text: 'gone' }]), ['everything recovers']);
  const killed = { type: 'return', phase: 1, program: 'api-1', tookMs: 6_001 } as const;
  assert.equal(rules([{ ...killed, waitedMs: 3_000 }]), ['killed programs return']);
  assert.equal(rules([{ ...killed, waitedMs: 3_001 }]), []);
  const span: Line = { type: 'span', phase: 1, fault: 'f', what: 'fault', from: 0, to: 9_000, verifyWithinMs: 1_000 };
  const asked = [10, 1_500].map((to, i) => verified({ call: String(i), billing: '', from: to - 5, to }));
  assert.equal(rules([span, ...asked]), ['unaffected calls go on']);
  const deleted = changed('key.delete', asked[0]!.key, {}, { from: 0, to: 1 });
  assert.equal(rules([span, ...asked.map((line) => ({ ...line, status: 'DELETED' })), deleted]), []);
});

test('on a machine that was too busy everything but deadlines is judged', () => {
  const late = verified({ call: 'a', http: 503, from: 0, to: 3_100 });
  const pulse: Line = { type: 'pulse', phase: 1, at: 0, load: 9 };
  assert.equal(rules([late, pulse]), []);
  assert.equal(rules([...history(), record({ usedMicros: 7 }), pulse]), ['balance = books']);
});

test('a statement that is not the usage, not the balance, or not proved is found', () => {
  const rule = ['statements = usage = balance'];
  const wrong = (given: object) =>
    rules([valid('a', 1), valid('b', 3, 2), record({ usedMicros: 3, statement: line(3, given) })]);
  assert.equal(wrong({}), []);
  for (const name of ['openingMicros', 'movedMicros', 'closingMicros', 'usageMicros'])
    assert.equal(wrong({ [name]: 2 }), rule, name);
  assert.equal(wrong({ closingMicros: NaN }), rule);
  assert.equal(wrong({ proof: 'PENDING' }), ['a statement is proved']);
  const { statement: _, ...none } = record({ usedMicros: 3 });
  assert.equal(rules([valid('a', 1), valid('b', 3, 2), none]), ['the service answers in the end']);
});

test('usage on a day outside the phase is found', () => {
  const span: Line = { type: 'span', phase: 1, fault: 'f', what: 'phase', from: 0, to: 9_000 };
  const books = record({ usedMicros: 1, rows: [{ ...row('a', 1), day: '1970-01-03' }] });
  assert.equal(rules([span, valid('a', 1), books]), ['one clock']);
});

test.run();

function history(): Line[] {
  return [valid('a', 1), valid('b', 3, 2), record({ usedMicros: 3, rows: [row('a', 1), row('b', 2)] })];
}

/** The rules that a history breaks, each once. */
function rules(lines: Line[]): string[] {
  return [...new Set(check([{ type: 'run', seed: 1, startedAtMs: 0 }, ...lines]).map(({ rule }) => rule))];
}

function valid(call: string, usedMicros: number, costMicros = 1): Verified {
  return verified({ call, usedMicros, costMicros });
}

function verified(given: Omit<Partial<Verified>, 'http'> & { call: string; http?: number | undefined }): Verified {
  const { http = 'http' in given ? undefined : 200, ...rest } = given;
  const base = {
    type: 'verify',
    phase: 1,
    from: 10,
    to: 20,
    at: 'verify-1',
    key: 'key',
    secretIndex: 0,
    billing: 'bill',
  } as const;
  const status = http === 200 && rest.status === undefined ? { status: 'VALID' } : {};
  return { ...base, costMicros: 1, idempotent: false, ...status, ...rest, ...(http !== undefined && { http }) };
}

function changed(what: ChangeKind, of: string, detail: Detail, given: Partial<Changed> = {}): Changed {
  const base = { type: 'change', phase: 1, change: what, from: 100, to: 200, at: 'api-1', http: 200 } as const;
  return { ...base, what, of, detail, ...given };
}

function record(given: Partial<Record_>): Record_ {
  const base = {
    type: 'record',
    phase: 1,
    billing: 'bill',
    totalMicros: 0,
    limitMicros: 1_000,
    refillsMicros: [],
    found: 'EXACT',
    reportedLost: 0,
    heldMicros: 0,
    expiredMicros: 0,
  } as const;
  const made = { ...base, usedMicros: 0, rows: [row('a', 1), row('b', 2)], ...given };
  const availableMicros = made.totalMicros - made.usedMicros - made.heldMicros - made.expiredMicros;
  const statement = line(made.usedMicros, {});
  return { ...made, availableMicros, statement, ...given, refillsMicros: given.refillsMicros ?? [] };
}

/** What finance is told of a record that used so much. */
function line(micros: number, given: Partial<StatementLine>): StatementLine {
  return {
    openingMicros: 0,
    movedMicros: micros,
    closingMicros: micros,
    usageMicros: micros,
    proof: 'EXACT',
    ...given,
  };
}

function held(given: Partial<Held> = {}): Held {
  const base = { type: 'hold', phase: 1, call: 'h', from: 10, to: 20, at: 'verify-1', key: 'key' } as const;
  const asked = { billing: 'bill', micros: 5, forMs: 1_000, onExpiry: 'release', idempotent: false } as const;
  return { ...base, ...asked, http: 200, status: 'VALID', hold: 'hold_1', ...given };
}

function settled(
  what: Settled['what'],
  given: Omit<Partial<Settled>, 'http'> & { http?: number | undefined } = {},
): Settled {
  const { http = 'http' in given ? undefined : 200, ...rest } = given;
  const base = { type: 'settle', phase: 1, call: 'h', from: 30, to: 40, at: 'verify-1', billing: 'bill' } as const;
  return { ...base, what, ...rest, ...(http !== undefined && { http }) };
}

/** The record at the end, where the books have a hold's cost alone. */
function cost(micros: number, given: Partial<Record_> = {}): Record_ {
  return record({ usedMicros: micros, rows: micros === 0 ? [] : [row('h', micros)], ...given });
}

function granted(given: Partial<Granted> = {}): Granted {
  const base = { id: 'grant_1', name: 'g', state: 'EXPIRED', micros: 10 };
  return { ...base, usedMicros: 3, expiredMicros: 7, remainingMicros: 0, ...given };
}

function row(name: string, micros: number) {
  return { day: '1970-01-01', name, micros, events: 1 };
}
