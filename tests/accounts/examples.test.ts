import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectTestRedis } from '../helpers/world.ts';
import type { Command } from './commands.ts';
import { partOf, type Account } from './model.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { Record } from './record.ts';
import { SHARD } from './test-shard.ts';

// The contract of grants, holds and alerts in examples: a guarantee, and below it what is done. Each is done to the model and to the
// scripts of the product, which must agree after every step (record.ts): the model alone is compared with what an example says.
// Times are ms after the beginning, grants, holds and calls are named by their place.
//
//   grant 10 from 5 until 100 priority 10 rolls 200 most 3     verify 4       hold 6 for 50 charge      extend 0 for 10
//   capture 0 6     release 0     cancel 0     void 0     adjust -3         at 100         settings overages cap 12
//   alerts gone:100% left:4                                    amounts 10 4 6 0 0    gave 4/0/6    overdrawn 2    crossed gone
//
// A step is VALID or DONE unless it says another answer at its end; `amounts` are total, used, available, held, expired, and `gave`
// is what each grant gave, lost, and has left.

const DAY = 86_400_000;
const ANSWER = / (VALID|REFUSED|TOO_LARGE|CONFLICT|UNKNOWN)$/;

const examples = `
drawn: lower priority first, then the one that ends first, then the older; no end: last
  grant 1; grant 1 until 20; grant 1 until 10; grant 1 until 10; grant 1 priority 10; verify 1; gave 0/0/1 0/0/1 0/0/1 0/0/1 1/0/0
  verify 1; gave 0/0/1 0/0/1 1/0/0 0/0/1 1/0/0; verify 1; gave 0/0/1 0/0/1 1/0/0 1/0/0 1/0/0
  verify 1; gave 0/0/1 1/0/0 1/0/0 1/0/0 1/0/0
what is left of a grant expires at its end, and is available until the ms before
  grant 10 until 100; verify 4; at 99; amounts 10 4 6 0 0; verify 1; at 100; amounts 10 5 0 0 5; verify 1 REFUSED
a pending grant is not counted before its ms, and a voided pending one never
  grant 10 from 50; grant 5 from 50; void 0; at 49; amounts 0 0 0 0 0; verify 1 REFUSED; at 50; amounts 5 0 5 0 0
  verify 5
a voided grant loses what is left at once; again: the same; an expired one: a conflict
  grant 10; grant 1 until 10 priority 90; verify 4; void 0; amounts 11 4 1 0 6
  void 0; at 10; void 1 CONFLICT; amounts 11 4 0 0 7
one moment, one order: holds end, then grants end, then grants begin
  grant 10 until 100; grant 3 from 100; hold 4 for 100 charge; hold 5 for 100; at 100; amounts 13 4 3 0 6
  gave 4/6/0 0/0/3
several moments are walked in the order of time, due holds among them
  grant 10 until 100; grant 10 from 150; hold 6 for 120 charge; at 200; gave 6/4/0 0/0/10
what a hold drew from a grant when it opened stays reserved when that ends: captured, the grant pays
  grant 10 until 100; grant 10; hold 6 for ${DAY}; at 100; amounts 20 0 10 6 4; capture 0 6; gave 6/4/0 0/0/10
… released, it expires then
  grant 10 until 100; hold 6 for ${DAY}; at 100; release 0; amounts 10 0 0 0 10
… and a part of it captured: that grant pays this part, the rest expires
  grant 10 until 100; grant 10; hold 6 for ${DAY}; at 100; capture 0 2; gave 2/8/0 0/0/10
what a capture takes beyond its hold draws on current grants, else overdraws
  grant 10 until 100; grant 3; hold 6 for ${DAY}; at 100; capture 0 11; gave 6/4/0 3/0/0; amounts 13 11 -2 0 4
  overdrawn 2
a hold that was opened after the end takes nothing of what is kept for older ones
  grant 10 until 100; grant 10; hold 6 for ${DAY}; at 100; hold 6 for ${DAY}; capture 1 6; gave 0/4/6 6/0/4
  capture 0 6; gave 6/4/0 6/0/4
what a hold drew when it opened stays, whatever begins or is used since
  grant 10 until 100; hold 6 for ${DAY}; grant 10 priority 10; verify 12; gave 2/0/8 10/0/0
  at 100; amounts 20 12 0 6 2; capture 0 5; gave 7/3/0 10/0/0
beyond all grants a hold owns nothing: a capture draws that on what is there then
  settings overages; grant 4; hold 6 for ${DAY}; grant 10 priority 10; amounts 14 0 8 6 0
  capture 0 6; gave 4/0/0 2/0/8
what comes back from a hold pays first what is overdrawn
  settings overages; grant 10 until 100; hold 6 for ${DAY}; verify 9; overdrawn 5; release 0; overdrawn 0
  at 100; amounts 10 9 0 0 1
what was voided of a class goes first, when a hold that owns of it ends
  grant 10; verify 4; hold 5 for ${DAY}; grant 10; void 0; amounts 20 4 10 5 1; release 0; amounts 20 4 10 0 6
a void keeps what holds own of the grant, too
  grant 10; hold 6 for ${DAY}; void 0; amounts 10 0 0 6 4; capture 0 5; amounts 10 5 0 0 5
a new grant covers what is overdrawn first, not what is merely held
  settings overages; verify 4; hold 5 for ${DAY}; amounts 0 4 -9 5 0; grant 10; gave 4/0/6; amounts 10 4 1 5 0
giving back: overdrawn, then active grants against the order of drawing, then ended ones, the latest first
  grant 2 until 10; grant 2 until 20; verify 4; at 20; grant 3 priority 10; grant 3; adjust 8; overdrawn 2
  adjust -9; gave 2/0/0 1/1/0 0/0/3 0/0/3; amounts 10 3 6 0 1
giving back follows what was drawn, also where a better grant began since
  grant 10; verify 5; grant 10 priority 10; verify 3; adjust -3; gave 2/0/8 3/0/7
rollover: the same grant lives on with at most maxCredits of what was left, and is counted once
  grant 10 until 100 rolls 200 most 3; grant 10 from 100 until 200; verify 2; at 100; amounts 20 2 13 0 5
  verify 4; gave 5/5/0 1/0/9; at 200; amounts 20 6 0 0 14
… and with what is held of it besides
  grant 10 until 100 rolls 200 most 3; hold 5 for ${DAY}; at 100; amounts 10 0 3 5 2
  release 0; amounts 10 0 8 0 2; at 200; amounts 10 0 0 0 10
a cost passes when it is at most what is available; a cost of 0 passes every bound
  grant 10; hold 4 for ${DAY}; verify 7 REFUSED; verify 6; settings cap 0; verify 0
with overage there is no such bound; used + held + cost stays within the spend cap in both cases
  grant 10; settings overages cap 12; hold 4 for ${DAY}; verify 9 REFUSED; verify 8; settings cap 12; verify 1 REFUSED
an expired hold is given back, or charged, in the ms of its end
  grant 10; hold 3 for 5; hold 4 for 5 charge; at 4; amounts 10 0 3 7 0; at 5; amounts 10 4 6 0 0
  release 0; release 1 CONFLICT
the same capture again changes nothing, another usage is a conflict
  grant 10; hold 3 for 5; capture 0 2; capture 0 2; capture 0 3 CONFLICT; release 0 CONFLICT; amounts 10 2 8 0 0
a late capture debits for 24 h; after a charge it corrects, either way; then the hold is unknown
  grant 10; hold 2 for 5; hold 2 for 5 charge; hold 2 for 5 charge; hold 2 for 5; at 5; amounts 10 4 6 0 0
  at ${DAY + 4}; capture 0 1; capture 1 3; capture 2 0; amounts 10 4 6 0 0; at ${DAY + 5}; capture 3 1 UNKNOWN
a late capture never brings used below 0, where the charge was given back already
  grant 10; hold 2 for 5 charge; at 5; adjust -1; capture 0 0 CONFLICT; capture 0 1; amounts 10 0 10 0 0
extend works while the hold is open, and counts from now
  grant 10; hold 2 for 10; at 9; extend 0 for 10; at 18; amounts 10 0 8 2 0; at 19; amounts 10 0 10 0 0
  extend 0 for 10 CONFLICT
a capture that would pass 9000000000 is refused, and its hold stays
  settings overages; grant 9000000000000000; verify 8999999999999995; hold 5 for 10; capture 0 6 TOO_LARGE; capture 0 5; amounts 9000000000000000 9000000000000000 0 0 0
an alert is crossed once, and again once its credits were topped up or given back; what is held crosses nothing
  settings overages; grant 100; alerts most:80% left:10; hold 95 for ${DAY}; verify 79; crossed nothing
  verify 1; verify 5; crossed most; verify 5; crossed most left; adjust -15; verify 5; crossed most left most
  grant 100; verify 79; crossed most left most; verify 1; crossed most left most most
alerts that are reached when they are set tell nothing, those above it are crossed later
  settings overages; grant 100; verify 50; alerts a:49% b:50% c:51% d:50; verify 0; crossed nothing; verify 1; crossed c
a share is of total less expired: a grant that ends crosses it without a call
  grant 10; grant 100 until 10; alerts most:80%; verify 50; crossed nothing; at 10; crossed most
usedPercent is exact to the micro-credit, where floating point would cross one early
  settings overages; grant 8132762829599804; alerts most:90%; verify 7319486546639823; crossed nothing
  verify 1; crossed most
`;

const { client } = (await connectTestRedis()).node(SHARD);

for (const example of examples.trim().split(/\n(?! )/)) {
  const [guarantee = '', ...lines] = example.split('\n');
  test(guarantee, async () => {
    await loadScripts(client);
    const product = recordOfProduct(client);
    const record = new Record(product);
    await record.startPlain(0n, 0n);
    await record.do({ do: 'settings', allowOverages: false, spendCap: undefined }, false);
    const startMs = record.model.now;
    for (const step of lines.flatMap((line) => line.trim().split('; '))) {
      const [what = '', ...words] = step.replace(ANSWER, '').split(' ');
      const tells = told[what];
      if (tells) {
        assert.is(tells(record.model), words.join(' '), step);
        continue;
      }
      const answer = await record.do(readCommand(what, words, record.model.now - startMs), false);
      assert.is(answer === 'DONE' ? 'VALID' : answer, ANSWER.exec(step)?.[1] ?? 'VALID', step);
    }
    await product.remove();
  });
}

const told: { [word: string]: (account: Account) => string } = {
  amounts: ({ total, used, available, held, expired }) => [total, used, available, held, expired].join(' '),
  gave: ({ grants }) =>
    grants
      .map((grant) => {
        const { used, expired } = partOf(grant);
        const begun = grant.of ? grant.micros : 0n;
        return [used, expired, begun - used - expired].join('/');
      })
      .join(' '),
  overdrawn: ({ overdrawn }) => String(overdrawn),
  crossed: ({ crossed }) => crossed.join(' ') || 'nothing',
};

function readCommand(what: string, words: string[], nowMs: number): Command {
  const after = (word: string) => Number(words[words.indexOf(word) + 1]);
  const has = (word: string) => words.includes(word);
  const micros = BigInt(/^-?\d+$/.test(words.at(-1) ?? '') ? words.at(-1)! : 0);
  const [place, expiresIn] = [Number(words[0]), after('for')];
  switch (what) {
    case 'at':
      return { do: 'wait', ms: place - nowMs };
    case 'grant': {
      const from = has('from') ? after('from') : nowMs;
      const lasts = has('until') ? after('until') - from : 0;
      const rolls = has('rolls') && { rollsFor: after('rolls') - after('until'), most: BigInt(after('most')) };
      const priority = has('priority') ? after('priority') : 50;
      return {
        do: 'grant',
        micros: BigInt(words[0]!),
        priority,
        beginsIn: from - nowMs,
        lasts,
        ...(rolls || { rollsFor: 0, most: 0n }),
      };
    }
    case 'hold':
      return { do: 'hold', micros: BigInt(words[0]!), expiresIn, onExpiry: has('charge') ? 'charge' : 'release' };
    case 'verify':
    case 'adjust':
      return { do: what, micros };
    case 'capture':
      return { do: 'capture', hold: place, micros };
    case 'cancel':
      return { do: 'cancel', call: place };
    case 'release':
      return { do: 'release', hold: place };
    case 'extend':
      return { do: 'extend', hold: place, expiresIn };
    case 'void':
      return { do: 'void', grant: place };
    case 'settings':
      return {
        do: 'settings',
        allowOverages: has('overages'),
        spendCap: has('cap') ? BigInt(after('cap')) : undefined,
      };
    case 'alerts':
      return { do: 'alerts', alerts: words.map(readAlert) };
    default:
      throw new Error(`there is no step ${what}`);
  }
}

function readAlert(text: string) {
  const [name = '', value = ''] = text.split(':');
  const when = value.endsWith('%') ? { usedPercent: BigInt(value.slice(0, -1)) } : { available: BigInt(value) };
  return { name, when };
}
