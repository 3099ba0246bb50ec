import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { makeTestClock } from '../../../tests/helpers/clock.ts';
import { limitCalls } from './limit-calls.ts';

const team = (tokenId: string): Caller => ({
  tokenId,
  teamId: 'team_1',
  permissions: new Set(),
  workspaceIds: undefined,
});
const customer = (linkTokenId: string): Caller => ({
  ...team('tok_maker'),
  portal: { linkTokenId, workspaceId: 'ws_1', customerId: 'c', billingId: undefined, mayRotate: false, expiresAt: 0 },
});

test('a customer of the portal has 20 calls a second, a token its own limit, and neither holds up another', async () => {
  for (const [perSecond, caller, other, most] of [
    [50, customer('link_1'), customer('link_2'), 20],
    [5, customer('link_1'), customer('link_2'), 5],
    [50, customer('link_1'), team('tok_maker'), 20],
    [50, team('tok_1'), team('tok_2'), 50],
  ] as const) {
    const clock = makeTestClock();
    const limit = limitCalls(perSecond, clock);
    for (let i = 0; i < most; i++) limit(caller);
    assert.throws(
      () => limit(caller),
      (error: ApiError) => error.errorName === 'too_many_calls' && error.headers['Retry-After'] === '1',
    );
    limit(other);
    await clock.advance(1_000);
    limit(caller);
  }
});
