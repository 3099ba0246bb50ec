import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { apply } from './apply.ts';
import { sequences } from './commands.ts';
import { Account, left } from './model.ts';

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
    { numRuns: 1_000, seed: 1 },
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
    { numRuns: 500, seed: 1 },
  );
});
