import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { launch } from '../../tests/browser/console/helpers/browser.ts';
import { heldBy, measureConsole } from './measure.ts';

const ROUNDS = 2_000;
// Of as many objects, each the smallest there is.
const LEAST_KB = (ROUNDS * 28) / 1024;

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

test('one small thing kept a round shows in what a page keeps, and V8 compiling what runs often does not', async () => {
  const browser = await launch();
  const page = await browser.newPage();
  const protocol = await page.context().newCDPSession(page);
  // Enough work a round for V8 to compile it.
  await page.evaluate(`window.kept = []; window.rounds = (count, keep) => {
    for (let round = 0; round < count; round++) {
      const names = new Map();
      for (let i = 0; i < 200; i++) names.set('name ' + (i % 7), { round, i });
      keep?.(() => round);
    }
  }`);
  await page.evaluate(`rounds(2)`);
  const cold = await heldBy(protocol);
  await page.evaluate(`rounds(${ROUNDS})`);
  const warm = await heldBy(protocol);
  assert.ok(warm.codeKb > cold.codeKb, `${warm.codeKb} kB of code`);
  const more = warm.keptKb - cold.keptKb;
  assert.ok(more < LEAST_KB / 4, `${more} kB more`);
  await page.evaluate(`rounds(${ROUNDS}, (one) => kept.push(one))`);
  const leaky = await heldBy(protocol);
  assert.ok(leaky.keptKb - warm.keptKb > LEAST_KB, `${leaky.keptKb - warm.keptKb} kB more`);
  await page.evaluate(`rounds(${ROUNDS}, (one) => document.addEventListener('x', one))`);
  assert.is((await heldBy(protocol)).listeners - leaky.listeners, ROUNDS);
  await browser.close();
});
