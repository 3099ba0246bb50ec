import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { billingState, type Billing } from './billing-state.ts';

test('a customer is told to be low, or near its cap, before the credits or the cap are used up', () => {
  for (const [availableCredits, usedCredits, rules, word] of [
    ['2.1', '7.9', {}, 'good In credit'],
    ['1.9', '8.1', {}, 'low Low'],
    ['0', '10', {}, 'bad Out of credits'],
    ['0', '10', { allowOverages: true }, 'low Used up'],
    ['-5', '15', {}, 'bad Overdrawn'],
    ['-5', '15', { allowOverages: true }, 'low Overdrawn'],
    ['-5', '15', { allowOverages: true, spendCap: '18' }, 'low Near cap'],
    ['-5', '15', { allowOverages: true, spendCap: '15' }, 'bad Cap reached'],
    ['90', '10', { spendCap: '12.5' }, 'low Near cap'],
  ] as const) {
    const billing = { availableCredits, usedCredits, heldCredits: '0', allowOverages: false, ...rules };
    const [first, second] = billingState(billing as Billing);
    assert.is(`${first} ${second}`, word);
  }
});
