import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { measureConsole } from './measure.ts';

// What `make bench-console` does with 10,000 keys and 2,000 rounds. Times and memory mean nothing on a machine that runs tests.
test('the console shows a first page, scrolls through all keys without a blank frame, and polls on', async () => {
  const keys = 400;
  const said: string[] = [];
  const { firstPage, scrolled, polled } = await measureConsole({
    keys,
    runs: 1,
    rounds: 40,
    days: 1,
    calls: 1_000,
    scrollSeconds: 2,
    settleMs: 0,
    say: (line) => said.push(line),
  });
  assert.equal(said.includes('the demo did not go as it should'), false);
  assert.ok(firstPage.shownMs[0]! > 0);
  assert.ok(firstPage.drawnMs[0]! >= firstPage.shownMs[0]!);
  assert.ok(scrolled.rows > keys, `${scrolled.rows} rows`);
  assert.ok(scrolled.frames > 0);
  assert.is(scrolled.blank, 0);
  assert.ok(polled.length >= 20 && polled.at(-1)!.rounds >= 40);
  assert.ok(polled.every(({ keptKb, codeKb, nodes }) => keptKb > 0 && codeKb > 0 && nodes > 0));
});
