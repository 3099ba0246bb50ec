import type { Command } from './commands.ts';
import { partOf, type Account, type Answer } from './model.ts';

// Examples in words, one step each. Times are ms after the beginning, grants and holds are named by their place.
//
//   grant 10 from 5 until 100 priority 10 rolls 200 most 3     verify 4       hold 6 for 50 charge      extend 0 for 10
//   capture 0 6     release 0     cancel 0     void 0     adjust -3         at 100         settings overages cap 12
//   alerts gone:100% left:4                                    amounts 10 4 6 0 0    gave 4/0/6    overdrawn 2    crossed gone
//
// A step is VALID or DONE unless it says another answer at its end; `amounts` are total, used, available, held, expired, and `gave`
// is what each grant gave, lost, and has left.

const ANSWER = / (VALID|REFUSED|TOO_LARGE|CONFLICT|UNKNOWN)$/;

type Played = { account: Account; do(command: Command): Promise<Answer | 'NOTHING'> };

/** Does the steps of an example, and gives the first that did not come out as it says. */
export async function play({ account, do: run }: Played, steps: readonly string[]): Promise<string | undefined> {
  const startMs = account.now;
  for (const step of steps) {
    const wanted = ANSWER.exec(step)?.[1];
    const [what = '', ...words] = step.replace(ANSWER, '').split(' ');
    const tells = told[what];
    if (tells) {
      const found = tells(account);
      if (found !== words.join(' ')) return `${step}: ${found}`;
      continue;
    }
    const answer = await run(readCommand(what, words, account.now - startMs));
    if (wanted === undefined ? answer !== 'DONE' && answer !== 'VALID' : answer !== wanted) return `${step}: ${answer}`;
  }
  return undefined;
}

const told: Record<string, (account: Account) => string> = {
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
  crossed: ({ crossed }) => crossed.join(' '),
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
