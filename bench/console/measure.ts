import { cpus, loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, CDPSession, Page } from 'playwright-core';
import { play } from '../../apps/stack/demo/demo.ts';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { launch } from '../../tests/browser/console/helpers/browser.ts';
import { must } from '../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../tests/helpers/world.ts';

/**
 * How long pages of some runs took, on a processor that was slowed down: until all that they read was shown, and until its charts
 * were drawn too.
 */
export type FirstPage = { shownMs: number[]; drawnMs: number[] };
/** How a table scrolled from its first row to its last; `blank` are frames that showed no row where one belongs. */
export type Scrolled = { rows: number; frames: number; perSecond: number; worstPerSecond: number; blank: number };
/** What a tab holds: V8's heap by what the page made and by V8's own code for it, and what hangs in the page. */
export type Held = { keptKb: number; codeKb: number; nodes: number; listeners: number };
/** What a tab holds after so many rounds of polling. */
export type Polled = Held & { rounds: number };

export type Measured = {
  firstPage: FirstPage;
  scrolled: Scrolled;
  polled: Polled[];
  /** How many processes wanted the processor on average when each was measured. */
  load: { firstPage: number; scrolled: number; polled: number };
};

type Options = {
  keys: number;
  /** How often a page is loaded. */
  runs: number;
  rounds: number;
  /** Days of usage that are made up, and calls that are sent. */
  days: number;
  calls: number;
  scrollSeconds: number;
  /** How long the servers may take to work off what was filled in, at most. */
  settleMs: number;
  say(line: string): void;
};

const THROTTLED = 4;
const KEYS_AT_ONCE = 100;
const LOOKS = 20;
const CALL_EVERY_MS = 500;
const SETTLED_AFTER_MS = 1_500;
const STARTED_AFTER_MS = 3_000;
// No page waits so long but for its next look at the api.
const POLLS_FROM_MS = 5_000;
const FASTER = 500;
const GIVE_UP_AFTER_MS = 300_000;
const IDLE_FOR_MS = 5_000;
const IDLE_SHARE = 0.85;
const VIEWPORT = { width: 1280, height: 800 };

/** Measures the console in Chromium, with the data of the demo, on the servers of the run. */
export async function measureConsole(options: Options): Promise<Measured> {
  const { keys, runs, rounds, scrollSeconds, say } = options;
  const world = await makeWorld(['verify', 'consumer']);
  // A demo without it tells a failure, which is none of the console's.
  await world.start('webhooks');
  try {
    const shown = await fill(world, options);
    say(`${keys.toLocaleString('en')} keys, and the demo's data`);
    say(`the servers are idle after ${((await untilIdle(options.settleMs)) / 1000).toFixed(0)} s`);
    const load = { firstPage: 0, scrolled: 0, polled: 0 };
    const firstPage: FirstPage = { shownMs: [], drawnMs: [] };
    for (let run = 0; run < runs; run++) {
      const { shownMs, drawnMs } = await inBrowser(shown, (page) => loadFirst(page, shown));
      firstPage.shownMs.push(shownMs);
      firstPage.drawnMs.push(drawnMs);
    }
    load.firstPage = loadavg()[0]!;
    say(`the first page after ${firstPage.shownMs.map((one) => one.toFixed(0)).join(', ')} ms`);
    const scrolled = await inBrowser(shown, (page) => scroll(page, shown, scrollSeconds));
    load.scrolled = loadavg()[0]!;
    say(`${scrolled.perSecond.toFixed(1)} frames a second`);
    const polled = await inBrowser(shown, (page) => poll(page, shown, rounds, say));
    load.polled = loadavg()[0]!;
    return { firstPage, scrolled, polled, load };
  } finally {
    await world.stop();
  }
}

type Shown = { world: World; workspaceId: string; key: string; cookie: { name: string; value: string } };

async function fill(world: World, { keys, days, calls, say }: Options): Promise<Shown> {
  const { api, verify, team, sql } = world;
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const stage = { url: api.url, verifyUrl: verify!.url, token: team.token, pages: `${api.url}/console`, calls };
  const right = await play({ ...stage, past: { sql, books, days } }).finally(() => books.close());
  if (!right) say('the demo did not go as it should');
  const { workspaces } = (await must(200, world.call('get', '/api/v1/workspace'))).body;
  const workspaceId = workspaces[0].id as string;
  let key = '';
  for (let done = 0; done < keys; done += KEYS_AT_ONCE) {
    const numbers = Array.from({ length: Math.min(KEYS_AT_ONCE, keys - done) }, (_, i) =>
      String(done + i).padStart(6, '0'),
    );
    const made = numbers.map((number) => ({
      workspaceId,
      name: `Key ${number} of a customer`,
      customerId: `cus_${number}`,
      externalMeterId: 'acme',
      key: `imported-${number}-of-bench-console`,
      allowWeak: true,
    }));
    await must(200, world.call('post', '/api/v1/api-key/import', { keys: made }));
    key = made[0]!.key;
  }
  const signed = await fetch(`${api.url}/console/session`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${team.token}`, 'X-Keytally-Session': '1' },
  });
  const [, name = '', value = ''] = /^([\w-]+)=([^;]+)/.exec(signed.headers.get('set-cookie') ?? '') ?? [];
  if (!value) throw new Error(`signing in answered ${signed.status} without a cookie`);
  return { world, workspaceId, key, cookie: { name, value } };
}

/**
 * Waits until the processors have little to do, so long at most; gives how long that took. After a fill the servers still apply
 * changes, count, merge and clean up, which is no part of what a page takes.
 */
async function untilIdle(atMostMs: number): Promise<number> {
  const began = performance.now();
  for (let idle = 0; idle < IDLE_SHARE && performance.now() - began < atMostMs;) {
    const [fromMs, idleMs] = [performance.now(), idleMsOf()];
    await sleep(IDLE_FOR_MS);
    idle = (idleMsOf() - idleMs) / (performance.now() - fromMs) / cpus().length;
  }
  return performance.now() - began;
}

function idleMsOf(): number {
  return cpus().reduce((sum, { times }) => sum + times.idle, 0);
}

/** Opens a browser of its own, that has loaded nothing before and is signed in. */
async function inBrowser<Value>({ world, cookie }: Shown, look: (page: Page) => Promise<Value>): Promise<Value> {
  const browser: Browser = await launch();
  try {
    const context = await browser.newContext({ viewport: VIEWPORT });
    await context.addCookies([{ ...cookie, url: world.api.url, httpOnly: true, sameSite: 'Strict' }]);
    const page = await context.newPage();
    page.setDefaultTimeout(GIVE_UP_AFTER_MS);
    return await look(page);
  } finally {
    await browser.close();
  }
}

// When everything that the page reads is there, and the frame that shows it was drawn; and when its charts were.
const WATCH = `
  const drawnAfter = (name, isSo) => {
    window[name] = undefined;
    let was = false;
    return () => {
      const is = isSo();
      if (!is) window[name] = undefined;
      else if (!was) requestAnimationFrame(() => setTimeout(() => (window[name] ??= isSo() ? performance.now() : undefined)));
      was = is;
    };
  };
  const isThere = () => document.querySelector('main h1') !== null
    && document.querySelector('[aria-busy="true"]') === null
    && document.querySelector('main tbody tr, main li') !== null;
  const areDrawn = () => isThere() && [...document.querySelectorAll('figure.chart')].every((one) => one.querySelector('canvas'));
  const looks = [drawnAfter('__shownMs', isThere), drawnAfter('__drawnMs', areDrawn)];
  new MutationObserver(() => looks.forEach((look) => look()))
    .observe(document, { subtree: true, childList: true, attributes: true });`;

type Loaded = { shownMs: number; drawnMs: number };

async function loadFirst(page: Page, { world, workspaceId }: Shown): Promise<Loaded> {
  const protocol = await page.context().newCDPSession(page);
  await protocol.send('Emulation.setCPUThrottlingRate', { rate: THROTTLED });
  await page.addInitScript(WATCH);
  // Nobody opens the page in the moment in which the browser itself starts.
  await page.waitForTimeout(STARTED_AFTER_MS);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/`);
  const until = performance.now() + GIVE_UP_AFTER_MS;
  while (performance.now() < until) {
    // A part that is read only after another one begins meanwhile.
    await page.waitForTimeout(SETTLED_AFTER_MS);
    const [shownMs, drawnMs] = await page.evaluate<(number | null)[]>(
      '[window.__shownMs ?? null, window.__drawnMs ?? null]',
    );
    if (shownMs != null && drawnMs != null) return { shownMs, drawnMs };
  }
  throw new Error('the first page never showed data');
}

async function scroll(page: Page, { world, workspaceId }: Shown, seconds: number): Promise<Scrolled> {
  await page.goto(`${world.api.url}/console/w/${workspaceId}/keys`);
  const region = page.getByRole('region', { name: 'Keys', exact: true });
  await region.waitFor();
  const rows = await page.evaluate<number>(`(async () => {
    const region = document.querySelector('[role="region"][aria-label="Keys"]');
    const rows = () => Number(region.querySelector('table').getAttribute('aria-rowcount'));
    const until = performance.now() + ${GIVE_UP_AFTER_MS};
    while (rows() < 0 && performance.now() < until) {
      region.scrollTop = region.scrollHeight;
      await new Promise(requestAnimationFrame);
    }
    return rows() - 1;
  })()`);
  const { times, blank } = await page.evaluate<{ times: number[]; blank: number }>(`(async () => {
    const region = document.querySelector('[role="region"][aria-label="Keys"]');
    const box = region.getBoundingClientRect();
    region.scrollTop = 0;
    for (let i = 0; i < 10; i++) await new Promise(requestAnimationFrame);
    const began = performance.now();
    const times = [];
    let blank = 0;
    for (let passed = 0; passed < ${seconds * 1000}; passed = performance.now() - began) {
      region.scrollTop = ((region.scrollHeight - region.clientHeight) * passed) / ${seconds * 1000};
      await new Promise(requestAnimationFrame);
      times.push(performance.now() - began);
      const row = document.elementFromPoint(box.x + 40, box.y + box.height / 2)?.closest('tr');
      if (!row || row.classList.contains('space')) blank++;
    }
    return { times, blank };
  })()`);
  const bySecond = Map.groupBy(times, (ms) => Math.floor(ms / 1000));
  const worst = Array.from({ length: Math.floor(seconds) }, (_, second) => bySecond.get(second)?.length ?? 0);
  const perSecond = (1000 * times.length) / times.at(-1)!;
  return { rows, frames: times.length, perSecond, worstPerSecond: Math.min(...worst), blank };
}

// In this page alone time passes faster for what waits for its next look at the api, in proportion.
const HURRY = `
  const later = window.setTimeout;
  window.setTimeout = (work, ms, ...more) => later(work, ms >= ${POLLS_FROM_MS} ? ms / ${FASTER} : ms, ...more);`;

/** Lets the overview poll so many rounds as fast as the api answers, while calls go on. */
async function poll(page: Page, shown: Shown, rounds: number, say: (line: string) => void): Promise<Polled[]> {
  const { world, workspaceId, key } = shown;
  let done = 0;
  page.on('requestfinished', (request) => {
    if (request.url().includes('/api/v1/verifications?') && request.url().includes('interval=minute')) done++;
  });
  let isOver = false;
  const calls = (async () => {
    while (!isOver) {
      await world.call('post', `${world.verify!.url}/api/v1/api-key/verify`, { key }).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, CALL_EVERY_MS));
    }
  })();
  try {
    const protocol = await page.context().newCDPSession(page);
    await page.addInitScript(HURRY);
    await page.goto(`${world.api.url}/console/w/${workspaceId}/overview`);
    const looks: Polled[] = [];
    const step = Math.ceil(rounds / LOOKS);
    let seen = { done, atMs: performance.now() };
    for (let next = step; looks.length <= LOOKS; await page.waitForTimeout(20)) {
      if (done > seen.done) seen = { done, atMs: performance.now() };
      if (performance.now() - seen.atMs > GIVE_UP_AFTER_MS) throw new Error(`no polling after ${done} rounds`);
      if (done < next) continue;
      const look = { rounds: done, ...(await heldBy(protocol)) };
      looks.push(look);
      say(
        `after ${look.rounds} rounds the page keeps ${look.keptKb.toFixed(1)} kB, and its code takes ${look.codeKb.toFixed(0)} kB`,
      );
      next += step;
    }
    return looks;
  } finally {
    isOver = true;
    await calls;
  }
}

// V8's code, and what the browser keeps of requests for whoever measures: neither is anything that the page holds on to.
const NOT_KEPT = new Set(['code', 'native']);

/** Looks at what a tab holds, by a snapshot of its heap, which collects first. */
export async function heldBy(protocol: CDPSession): Promise<Held> {
  let text = '';
  const take = ({ chunk }: { chunk: string }) => void (text += chunk);
  protocol.on('HeapProfiler.addHeapSnapshotChunk', take);
  await protocol.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false });
  protocol.off('HeapProfiler.addHeapSnapshotChunk', take);
  const { snapshot, nodes: things } = JSON.parse(text) as HeapSnapshot;
  const { node_fields: fields, node_types: kinds } = snapshot.meta;
  const [kindAt, bytesAt] = [fields.indexOf('type'), fields.indexOf('self_size')];
  let [kept, code] = [0, 0];
  for (let at = 0; at < things.length; at += fields.length) {
    const kind = kinds[kindAt]![things[at + kindAt]!]!;
    if (kind === 'code') code += things[at + bytesAt]!;
    if (!NOT_KEPT.has(kind)) kept += things[at + bytesAt]!;
  }
  const { nodes, jsEventListeners } = await protocol.send('Memory.getDOMCounters');
  return { keptKb: kept / 1024, codeKb: code / 1024, nodes, listeners: jsEventListeners };
}

// A thing is as many numbers as there are fields; its kind is a place in the first list of kinds.
type HeapSnapshot = { snapshot: { meta: { node_fields: string[]; node_types: string[][] } }; nodes: number[] };
