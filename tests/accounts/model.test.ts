import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { apply } from './apply.ts';
import { sequences } from './commands.ts';
import { Account, left, MOST_MICROS } from './model.ts';

const DAY = 86_400_000;

/** The five amounts, in the order of the identity. */
function five({ total, used, available, held, expired }: Account): number[] {
  return [total, used, available, held, expired].map(Number);
}

function gave(account: Account): [used: number, expired: number, left: number][] {
  return account.grants.map((grant) => [Number(grant.used), Number(grant.expired), Number(left(grant))]);
}

test('total = used + available + held + expired after each step, and no grant gives more than it has', () => {
  fc.assert(
    fc.property(sequences(50), (commands) => {
      const account = new Account(1_000);
      for (const command of commands) {
        apply(account, command);
        const { total, used, available, held, expired, overdrawn, pinned, grants, holds } = account;
        assert.is(total, used + available + held + expired);
        assert.is(
          used,
          grants.reduce((sum, grant) => sum + grant.used, overdrawn),
        );
        for (const grant of grants)
          for (const part of [grant.used, grant.expired, grant.pinned, left(grant)]) assert.ok(part >= 0n);
        assert.ok(overdrawn >= 0n && used >= 0n);
        // Nothing stays pinned for nobody; nothing is overdrawn while a grant has something left.
        const old = holds.filter((hold) => hold.state === 'OPEN' && hold.old);
        assert.ok(pinned <= old.reduce((sum, hold) => sum + hold.micros, 0n));
        assert.ok(overdrawn === 0n || account.drawingOrder().every((grant) => left(grant) === 0n));
      }
    }),
    { numRuns: 2_000 },
  );
});

test('a call is accepted only if it fits, so credits alone are never passed by calls and holds', () => {
  fc.assert(
    fc.property(sequences(50), (commands) => {
      const account = new Account();
      for (const command of commands.filter((one) => one.do !== 'adjust' && one.do !== 'settings')) {
        const before = account.available;
        const answer = apply(account, command);
        const cost = command.do === 'verify' || command.do === 'hold' ? command.micros : 0n;
        if (cost > 0n) assert.is(answer, cost <= before ? 'VALID' : 'REFUSED');
      }
    }),
    { numRuns: 500 },
  );
});

test('drawn: lower priority first, then the one that ends first, then the older; no end: last', () => {
  const account = new Account();
  account.grant({ micros: 1n });
  account.grant({ micros: 1n, endsAt: 20 });
  account.grant({ micros: 1n, endsAt: 10 });
  account.grant({ micros: 1n, endsAt: 10 });
  account.grant({ micros: 1n, priority: 10 });
  const order: number[] = [];
  for (let i = 0; i < 5; i++) {
    const before = account.grants.map(({ used }) => used);
    account.verify(1n);
    order.push(account.grants.findIndex(({ used }, at) => used > before[at]!));
  }
  assert.equal(order, [4, 2, 3, 1, 0]);
});

test('what is left of a grant expires at its end, and is available until the ms before', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100 });
  account.verify(4n);
  account.advance(99);
  assert.equal(five(account), [10, 4, 6, 0, 0]);
  account.advance(100);
  assert.equal(five(account), [10, 4, 0, 0, 6]);
  assert.is(account.verify(1n), 'REFUSED');
});

test('a pending grant is not counted before it begins, and a voided pending one never', () => {
  const account = new Account();
  const first = account.grant({ micros: 10n, beginsAt: 50 });
  account.grant({ micros: 5n, beginsAt: 50 });
  assert.equal(five(account), [0, 0, 0, 0, 0]);
  assert.is(account.voidGrant(first), 'DONE');
  account.advance(50);
  assert.equal(five(account), [5, 0, 5, 0, 0]);
});

test('a voided grant loses what is left at once; again: the same; an expired one: a conflict', () => {
  const account = new Account();
  const grant = account.grant({ micros: 10n });
  const ending = account.grant({ micros: 1n, priority: 90, endsAt: 10 });
  account.verify(4n);
  assert.is(account.voidGrant(grant), 'DONE');
  assert.equal(five(account), [11, 4, 1, 0, 6]);
  assert.is(account.voidGrant(grant), 'DONE');
  account.advance(10);
  assert.is(account.voidGrant(ending), 'CONFLICT');
  assert.equal(five(account), [11, 4, 0, 0, 7]);
});

test('one moment, one order: holds end, then grants end, then grants begin', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100 });
  account.grant({ micros: 3n, beginsAt: 100 });
  account.hold(4n, 100, 'charge');
  account.hold(5n, 100);
  account.advance(100);
  // The charge is paid by the grant that ends in the same ms; what the release gives back expires with it.
  assert.equal(five(account), [13, 4, 3, 0, 6]);
  assert.equal(gave(account), [
    [4, 6, 0],
    [0, 0, 3],
  ]);
});

test('several moments are walked in the order of time, due holds among them', () => {
  const late = new Account();
  const step = new Account();
  for (const account of [late, step]) {
    account.grant({ micros: 10n, endsAt: 100 });
    account.grant({ micros: 10n, beginsAt: 150 });
    account.hold(6n, 120, 'charge');
  }
  for (const at of [100, 120, 150, 200]) step.advance(at);
  late.advance(200);
  assert.equal(five(late), five(step));
  assert.equal(gave(late), [
    [6, 4, 0],
    [0, 0, 10],
  ]);
});

test('a clock that is set back never un-turns', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100 });
  account.advance(100);
  account.advance(50);
  assert.equal(five(account), [10, 0, 0, 0, 10]);
  account.grant({ micros: 10n, beginsAt: 60, endsAt: 90 });
  assert.equal(five(account), [20, 0, 0, 0, 20]);
});

test('what a grant covers of open holds at its end stays for them: captured, that grant pays', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100 });
  account.grant({ micros: 10n });
  const hold = account.hold(6n, DAY)!;
  account.advance(100);
  assert.equal(five(account), [20, 0, 10, 6, 4]);
  assert.is(account.capture(hold, 6n), 'DONE');
  assert.equal(gave(account), [
    [6, 4, 0],
    [0, 0, 10],
  ]);
});

test('… released, it expires then', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100 });
  const hold = account.hold(6n, DAY)!;
  account.advance(100);
  account.release(hold);
  assert.equal(five(account), [10, 0, 0, 0, 10]);
});

test('… and a part of it captured: that grant pays this part, the rest expires', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100 });
  account.grant({ micros: 10n });
  const hold = account.hold(6n, DAY)!;
  account.advance(100);
  account.capture(hold, 2n);
  assert.equal(gave(account), [
    [2, 8, 0],
    [0, 0, 10],
  ]);
});

test('what a capture takes beyond its hold draws on current grants, else overdraws', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100 });
  account.grant({ micros: 3n });
  const hold = account.hold(6n, DAY)!;
  account.advance(100);
  account.capture(hold, 11n);
  assert.equal(gave(account), [
    [6, 4, 0],
    [3, 0, 0],
  ]);
  assert.equal(five(account), [13, 11, -2, 0, 4]);
  assert.is(account.overdrawn, 2n);
});

test('a hold that was opened after the end takes nothing of what is kept for older ones', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100 });
  account.grant({ micros: 10n });
  const older = account.hold(6n, DAY)!;
  account.advance(100);
  const newer = account.hold(6n, DAY)!;
  account.capture(newer, 6n);
  assert.equal(gave(account), [
    [0, 4, 0],
    [6, 0, 4],
  ]);
  account.capture(older, 6n);
  assert.equal(gave(account), [
    [6, 4, 0],
    [6, 0, 4],
  ]);
});

test('a void keeps what open holds need, too', () => {
  const account = new Account();
  const grant = account.grant({ micros: 10n });
  const hold = account.hold(6n, DAY)!;
  account.voidGrant(grant);
  assert.equal(five(account), [10, 0, 0, 6, 4]);
  account.capture(hold, 5n);
  assert.equal(five(account), [10, 5, 0, 0, 5]);
});

test('a new grant covers what is overdrawn first, not what is merely held', () => {
  const account = new Account();
  account.settings = { allowOverages: true, spendCap: undefined };
  account.verify(4n);
  account.hold(5n, DAY);
  assert.equal(five(account), [0, 4, -9, 5, 0]);
  account.grant({ micros: 10n });
  assert.equal(gave(account), [[4, 0, 6]]);
  assert.equal(five(account), [10, 4, 1, 5, 0]);
});

test('giving back: overdrawn, then active grants against the order of drawing, then ended ones, the latest first', () => {
  const account = new Account();
  account.grant({ micros: 2n, endsAt: 10 });
  account.grant({ micros: 2n, endsAt: 20 });
  account.verify(4n);
  account.advance(20);
  account.grant({ micros: 3n, priority: 10 });
  account.grant({ micros: 3n });
  account.adjust(8n);
  assert.is(account.overdrawn, 2n);
  account.adjust(-9n);
  assert.equal(gave(account), [
    [2, 0, 0],
    [1, 1, 0],
    [0, 0, 3],
    [0, 0, 3],
  ]);
  assert.equal(five(account), [10, 3, 6, 0, 1]);
});

test('giving back follows what was drawn, also where a better grant began since', () => {
  const account = new Account();
  account.grant({ micros: 10n });
  account.verify(5n);
  account.grant({ micros: 10n, priority: 10 });
  account.verify(3n);
  account.adjust(-3n);
  assert.equal(gave(account), [
    [2, 0, 8],
    [3, 0, 7],
  ]);
});

test('rollover: the same grant lives on with at most maxCredits of what was left, and is counted once', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100, rollover: { endsAt: 200, most: 3n } });
  account.grant({ micros: 10n, beginsAt: 100, endsAt: 200 });
  account.verify(2n);
  account.advance(100);
  assert.equal(five(account), [20, 2, 13, 0, 5]);
  account.verify(4n);
  assert.equal(gave(account), [
    [5, 5, 0],
    [1, 0, 9],
  ]);
  account.advance(200);
  assert.equal(five(account), [20, 6, 0, 0, 14]);
});

test('… and with what is held of it besides', () => {
  const account = new Account();
  account.grant({ micros: 10n, endsAt: 100, rollover: { endsAt: 200, most: 3n } });
  const hold = account.hold(5n, DAY)!;
  account.advance(100);
  assert.equal(five(account), [10, 0, 3, 5, 2]);
  account.release(hold);
  assert.equal(five(account), [10, 0, 8, 0, 2]);
  account.advance(200);
  assert.equal(five(account), [10, 0, 0, 0, 10]);
});

test('a cost passes when it is at most what is available; a cost of 0 passes every bound', () => {
  const account = new Account();
  account.grant({ micros: 10n });
  account.hold(4n, DAY);
  assert.is(account.verify(7n), 'REFUSED');
  assert.is(account.verify(6n), 'VALID');
  account.settings = { allowOverages: false, spendCap: 0n };
  assert.is(account.verify(0n), 'VALID');
});

test('with overage there is no such bound; used + held + cost stays within the spend cap in both cases', () => {
  const account = new Account();
  account.grant({ micros: 10n });
  account.settings = { allowOverages: true, spendCap: 12n };
  account.hold(4n, DAY);
  assert.is(account.verify(9n), 'REFUSED');
  assert.is(account.verify(8n), 'VALID');
  account.settings = { allowOverages: false, spendCap: 12n };
  assert.is(account.verify(1n), 'REFUSED');
});

test('an expired hold is given back, or charged, at its end', () => {
  const account = new Account();
  account.grant({ micros: 10n });
  account.hold(3n, 5);
  account.hold(4n, 5, 'charge');
  account.advance(4);
  assert.equal(five(account), [10, 0, 3, 7, 0]);
  account.advance(5);
  assert.equal(five(account), [10, 4, 6, 0, 0]);
});

test('the same capture again changes nothing, another usage is a conflict', () => {
  const account = new Account();
  account.grant({ micros: 10n });
  const hold = account.hold(3n, 5)!;
  assert.equal(
    [account.capture(hold, 2n), account.capture(hold, 2n), account.capture(hold, 3n)],
    ['DONE', 'DONE', 'CONFLICT'],
  );
  assert.is(account.release(hold), 'CONFLICT');
  assert.equal(five(account), [10, 2, 8, 0, 0]);
});

test('a late capture debits for 24 h; after a charge it corrects, either way; then the hold is unknown', () => {
  const account = new Account();
  account.grant({ micros: 10n });
  const [released, more, less, unknown] = [
    account.hold(2n, 5)!,
    account.hold(2n, 5, 'charge')!,
    account.hold(2n, 5, 'charge')!,
    account.hold(2n, 5)!,
  ];
  account.advance(5);
  assert.equal(five(account), [10, 4, 6, 0, 0]);
  account.advance(4 + DAY);
  for (const [hold, usage] of [
    [released, 1n],
    [more, 3n],
    [less, 0n],
  ] as const)
    assert.is(account.capture(hold, usage), 'DONE');
  assert.equal(five(account), [10, 4, 6, 0, 0]);
  account.advance(5 + DAY);
  assert.is(account.capture(unknown, 1n), 'UNKNOWN');
});

test('a late capture never brings used below 0, where the charge was given back already', () => {
  const account = new Account();
  account.grant({ micros: 10n });
  const hold = account.hold(2n, 5, 'charge')!;
  account.advance(5);
  account.adjust(-1n);
  assert.equal([account.capture(hold, 0n), account.used], ['CONFLICT', 1n]);
  assert.equal([account.capture(hold, 1n), account.used], ['DONE', 0n]);
});

test('a release is good after it expired by release, and a conflict after a charge', () => {
  const account = new Account();
  account.grant({ micros: 10n });
  const [released, charged] = [account.hold(2n, 5)!, account.hold(2n, 5, 'charge')!];
  account.advance(5);
  assert.equal([account.release(released), account.release(charged)], ['DONE', 'CONFLICT']);
});

test('extend works while the hold is open, and counts from now', () => {
  const account = new Account();
  account.grant({ micros: 10n });
  const hold = account.hold(2n, 10)!;
  account.advance(9);
  assert.is(account.extend(hold, 10), 'DONE');
  account.advance(18);
  assert.is(account.held, 2n);
  account.advance(19);
  assert.equal([account.held, account.extend(hold, 10)], [0n, 'CONFLICT']);
});

test('a capture that would pass 9000000000 is refused, and its hold stays', () => {
  const account = new Account();
  account.settings = { allowOverages: true, spendCap: undefined };
  account.grant({ micros: MOST_MICROS });
  account.verify(MOST_MICROS - 5n);
  const hold = account.hold(5n, 10)!;
  assert.equal([account.capture(hold, 6n), account.held], ['TOO_LARGE', 5n]);
  assert.equal([account.capture(hold, 5n), account.held], ['DONE', 0n]);
});

test.run();
