import { rejects, throws } from 'node:assert/strict';
import { once } from 'node:events';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { makeTestClock } from '../../../tests/helpers/clock.ts';
import { limitCalls, makeFairTurns, TURNS, type FairTurns } from './fair-turns.ts';

test('turns go round the teams, and in a team round its tokens, whoever asked more', async () => {
  const { turns, began, endAll } = makeStage({ running: 2, ofTeam: 2, ofToken: 2 });
  for (let i = 0; i < 50; i++) turns('a', 'busy');
  for (const token of ['calm', 'calm', 'other']) turns('a', token);
  for (const team of ['b', 'c', 'b']) turns(team, 'only');
  await endAll();
  // The first two ran before anybody else was there.
  const order = ['a busy', 'a busy', 'a busy', 'b only', 'c only', 'a calm', 'b only', 'a other', 'a busy', 'a calm'];
  assert.equal(began.slice(0, 10), order);
  assert.is(began.length, 56);
});

test('a token never has all turns of its team, nor a team all turns', async () => {
  const { turns, began, endAll } = makeStage({});
  for (let i = 0; i < 100; i++) turns('a', 'one');
  assert.is(began.length, TURNS.ofToken);
  for (let i = 0; i < 100; i++) turns('a', 'two');
  assert.is(began.length, TURNS.ofTeam);
  for (let i = 0; i < 100; i++) turns('b', 'three');
  assert.is(began.length, TURNS.running);
  turns('b', 'four');
  await endAll();
  assert.is(began.length, 301);
});

test('what waits is bounded for a team and for all; a refused call has begun nothing, and others go on', async () => {
  const limits = { running: 1, ofTeam: 1, ofToken: 1, waitingOfTeam: 3, waiting: 4 };
  const { turns, began, endAll, refusals } = makeStage(limits);
  for (let i = 0; i < 10; i++) turns('a', 'one');
  for (let i = 0; i < 10; i++) turns('b', 'one');
  await settled();
  assert.equal([began.length, refusals.length], [1, 14]);
  assert.ok(refusals.every((error) => error instanceof ApiError && error.errorName === 'too_many_waiting'));
  await endAll();
  assert.is(began.length, 6);
});

test('a failed call gives its turn back', async () => {
  const fair = makeFairTurns({ ...TURNS, running: 1, ofTeam: 1, ofToken: 1 });
  for (let i = 0; i < 3; i++) {
    const failed = fair.inTurn(callerOf('a', 'one'), () => Promise.reject(new Error('failed')));
    await rejects(failed, /failed/);
  }
  assert.is(await fair.inTurn(callerOf('b', 'one'), async () => 'ran'), 'ran');
});

test('a team whose clients do not read their answers gets no more of them, until one is read or gone', async () => {
  const fair = makeFairTurns();
  const [socket, response] = [new Socket(), new ServerResponse(new IncomingMessage(new Socket()))];
  response.assignSocket(socket);
  const bytes = TURNS.unsentOfTeam + 1;
  fair.countUnsent(callerOf('a', 'one'), bytes, response);
  throws(() => fair.requireRoom(callerOf('a', 'two')), { errorName: 'too_many_waiting' });
  fair.requireRoom(callerOf('b', 'one'));
  socket.destroy();
  await once(response, 'close');
  fair.requireRoom(callerOf('a', 'two'));
  // A client that left before its answer counts for nothing.
  fair.countUnsent(callerOf('a', 'one'), bytes, response);
  fair.requireRoom(callerOf('a', 'two'));
});

test('a customer of the portal has 20 calls a second, a token its own limit, and neither holds up another', async () => {
  const rest = { workspaceId: 'ws_1', customerId: 'c', billingId: undefined, mayRotate: false, expiresAt: 0 };
  const customer = (linkTokenId: string) => ({ ...callerOf('a', 'maker'), portal: { linkTokenId, ...rest } });
  for (const [perSecond, caller, other, most] of [
    [50, customer('link_1'), customer('link_2'), 20],
    [5, customer('link_1'), customer('link_2'), 5],
    [50, customer('link_1'), callerOf('a', 'maker'), 20],
    [50, callerOf('a', 'one'), callerOf('a', 'two'), 50],
  ] as const) {
    const clock = makeTestClock();
    const limit = limitCalls(perSecond, clock);
    for (let i = 0; i < most; i++) limit(caller);
    throws(() => limit(caller), { errorName: 'too_many_calls', headers: { 'Retry-After': '1' } });
    limit(other);
    await clock.advance(1_000);
    limit(caller);
  }
});

function callerOf(teamId: string, tokenId: string): Caller {
  return { teamId, tokenId: `${teamId} ${tokenId}`, permissions: new Set(), workspaceIds: undefined };
}

/** Turns whose calls run until `endAll` ends them, one after the other; `began` has them in the order of their turns. */
function makeStage(limits: Partial<typeof TURNS>) {
  const fair: FairTurns = makeFairTurns({ ...TURNS, ...limits });
  const began: string[] = [];
  const refusals: unknown[] = [];
  const ends: (() => void)[] = [];
  return {
    began,
    refusals,
    turns(team: string, token: string) {
      const work = () => {
        began.push(`${team} ${token}`);
        return new Promise<void>((resolve) => ends.push(resolve));
      };
      fair.inTurn(callerOf(team, token), work).catch((error: unknown) => refusals.push(error));
    },
    async endAll() {
      for (let end = ends.shift(); end; end = ends.shift()) {
        end();
        await settled();
      }
    },
  };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
