// What of kept usage only time shows, and what cannot be sent; ../cases.json has the rest.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeClient } from './client.ts';
import { makeClock } from './helpers/clock.ts';
import { keepUsage, KeytallyError, type KeptUsage } from './index.ts';

const clock = makeClock();
/** What was told to the newest kept usage. */
let lost: unknown[] = [];
/** What keytally answers: a status, or the code of an error. */
let said: string | number = 'VALID';
let requests = 0;
const client = makeClient({ url: 'http://keytally', token: 'x', fetch: keytally }, clock);
const call = { input: { key: 'key_a' }, idempotencyKey: 'a' };

async function keytally(): Promise<Response> {
  requests += 1;
  if (typeof said === 'string') return Response.json({ status: said });
  return Response.json({ error: { code: said, message: 'no' } }, { status: Math.floor(said / 100) });
}

test('what keytally cannot decide now is sent again: for ever, where it surely debited nothing, and no more is kept than may be', async () => {
  for (const [code, why] of [
    [50301, []],
    [50305, ['DOUBTFUL']],
  ] as const) {
    said = code;
    const kept = keep(1);
    assert.equal([kept.keep({ ...call }, true), kept.keep({ ...call }, true)], [true, false]);
    await pass(30_000);
    assert.equal([kept.size, kept.away, lost], [1, false, []], String(code));
    await pass(600_000);
    said = 'VALID';
    await pass(2_000);
    assert.equal([kept.size, lost], [0, why], String(code));
  }
});

test('what may have been debited is sent again while its Idempotency-Key is surely known, and is in doubt then', async () => {
  said = 'VALID';
  for (const [agoMs, why] of [
    // After a pause of a second.
    [48_999, []],
    [49_000, ['DOUBTFUL']],
  ] as const) {
    const kept = keep();
    kept.keep({ ...call, sentAtMs: clock.now() - agoMs }, true);
    await pass(1_000);
    assert.equal([await kept.flush(), lost], [0, why], String(agoMs));
  }
});

test('a call that cannot be sent is handed back, and flush waits for the others no longer than it may', async () => {
  said = 50301;
  const kept = keep();
  kept.keep({ ...call, input: { key: 1n as unknown as string } }, true);
  kept.keep({ ...call }, true);
  const left = kept.flush();
  await pass(20_000);
  assert.equal([await left, lost], [1, ['the call cannot be sent: TypeError: Do not know how to serialize a BigInt']]);
});

function keep(atMost = 10): KeptUsage {
  const told: unknown[] = (lost = []);
  return keepUsage(client, {
    onLost(_, why) {
      told.push(why instanceof KeytallyError ? why.message : why);
      throw new Error('printed by this test');
    },
    atMost,
  });
}

/** Lets time pass, a second at a time, and what follows from it: that has ended once nothing was asked for some turns. */
async function pass(ms: number): Promise<void> {
  for (const until = clock.now() + ms; clock.now() < until; clock.pass(1_000)) await ended();
  await ended();
}

async function ended(): Promise<void> {
  for (let [turns, before] = [0, -1]; turns < 10; turns = before === requests ? turns + 1 : 0) {
    before = requests;
    await new Promise(setImmediate);
  }
}
