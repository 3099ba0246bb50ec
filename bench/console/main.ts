// Measures the console's pages in Chromium, on servers of its own:
// node bench/console/main.ts [--keys N] [--rounds N] [--runs N]
import '../../shared/runtime/require-node.ts';
import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { ensurePackaged } from '../../tests/runner/packaged.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../../tests/runner/servers.ts';
import { printFigures, whole } from '../results.ts';
import { median } from '../rounds.ts';
import { measureConsole, type Polled } from './measure.ts';

const DAYS = 30;
const CALLS = 5_000;
const SCROLL_SECONDS = 20;
const SETTLE_MS = 120_000;
const FIRST_PAGE_MS = 1_000;
const FRAMES = 50;
// Of 0.7 MB that the page keeps at first: less than one thing a round, of which the smallest takes 28 bytes.
const GROWS_PERCENT = 5;
// Far from one a round.
const NODES_MORE = 100;

const { values } = parseArgs({
  options: {
    keys: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '2000' },
    runs: { type: 'string', default: '3' },
  },
});
const [keys, rounds, runs] = [Number(values.keys), Number(values.rounds), Number(values.runs)];
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(keys >= 100 && rounds >= 20 && runs >= 1))
    throw new StackError('usage: main.ts [--keys N, 100 or more] [--rounds N, 20 or more] [--runs N]');
  const chromium = await ensurePackaged('chromium', console.log);
  const { servers } = await startTestServers(folder, console.log);
  Object.assign(process.env, testEnvironment(servers, folder, 1), { TEST_CHROMIUM: chromium });
  mkdirSync(process.env.TEST_FOLDER!, { recursive: true });
  const measured = await measureConsole({
    keys,
    rounds,
    runs,
    days: DAYS,
    calls: CALLS,
    scrollSeconds: SCROLL_SECONDS,
    settleMs: SETTLE_MS,
    say: console.log,
  });
  const { firstPage, scrolled, polled, load } = measured;
  const [first, middle, last] = [polled[0]!, polled[Math.floor(polled.length / 2)]!, polled.at(-1)!];
  const all = ({ keptKb, codeKb }: Polled) => keptKb + codeKb;
  const percentMore = (before: number, after: number) => (100 * (after - before)) / before;
  const hanging = ({ nodes, listeners }: Polled) => nodes + listeners;
  const kb = (one: number) => `${whole(one)} kB`;
  const loaded = (one: number) => `load ${one.toFixed(1)} on ${availableParallelism()} cores`;
  const reached = printFigures([
    {
      what: 'first page with data, CPU ×4 slower, ms',
      value: median(firstPage.shownMs),
      must: FIRST_PAGE_MS,
      aim: FIRST_PAGE_MS / 2,
      lessIsBetter: true,
      seen: `${firstPage.shownMs.map(whole).join(', ')} ms, with its charts ${firstPage.drawnMs.map(whole).join(', ')}; ${loaded(load.firstPage)}`,
    },
    {
      what: `frames a second, ${whole(scrolled.rows)} keys`,
      value: scrolled.perSecond,
      must: FRAMES,
      aim: FRAMES,
      seen: `worst second ${scrolled.worstPerSecond}, ${scrolled.blank} of ${scrolled.frames} frames without rows; ${loaded(load.scrolled)}`,
    },
    {
      what: `kept after ${whole(last.rounds)} rounds, % more`,
      value: percentMore(first.keptKb, last.keptKb),
      must: GROWS_PERCENT,
      aim: GROWS_PERCENT / 5,
      lessIsBetter: true,
      seen: `${kb(first.keptKb)} after ${whole(first.rounds)}, then ${kb(last.keptKb)}; ${loaded(load.polled)}`,
    },
    {
      what: "kept and V8's code in the later half, % more",
      value: percentMore(all(middle), all(last)),
      must: GROWS_PERCENT,
      aim: GROWS_PERCENT / 5,
      lessIsBetter: true,
      seen: `${kb(all(first))} after ${whole(first.rounds)}, ${kb(all(middle))} after ${whole(middle.rounds)}, then ${kb(all(last))}`,
    },
    {
      what: `elements and listeners after ${whole(last.rounds)} rounds, more`,
      value: hanging(last) - hanging(first),
      must: NODES_MORE,
      aim: NODES_MORE / 5,
      lessIsBetter: true,
      seen: `${whole(hanging(first))}, then ${whole(hanging(last))}`,
    },
  ]);
  if (!reached) process.exitCode = 1;
}
