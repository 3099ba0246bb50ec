import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers } from '../../helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, settled, signedIn, signIn, visit } from './helpers/browser.ts';

// What a first page does, and in which order: on a slow machine that is how long a person waits.

// Else a page on a busy machine asks for the second time before it is looked at.
const NO_POLLING = `
  const later = window.setTimeout;
  window.setTimeout = (work, ms, ...more) => (ms >= 10_000 ? 0 : later(work, ms, ...more));`;
// In which order a page asks, and makes formats; and how often each of its charts is drawn.
const NOTES = `
  window.notes = [];
  window.drawn = new Map();
  const ask = window.fetch;
  window.fetch = (path, options) => (notes.push(path), ask(path, options));
  for (const name of ['DateTimeFormat', 'NumberFormat'])
    Intl[name] = new Proxy(Intl[name], { construct: (target, given) => (notes.push('format'), new target(...given)) });
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...given) {
    drawn.set(this.canvas, (drawn.get(this.canvas) ?? 0) + 1);
    return clear.apply(this, given);
  };`;
let world: World;
let browser: Browser;
let workspaceId: string;
const test = suite('the first page of the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Weather' })).body.workspace.id;
  const customers = makeCustomers(world, workspaceId);
  const externalMeterId = await customers.newMeter({ totalCredits: '100' });
  const { key } = await customers.newKey({ externalMeterId });
  await customers.verify({ key, billing: { usage: '1', usageName: 'forecast' } });
  await eventually('the call is booked', async () => {
    const { data } = (await world.call('get', `/api/v1/usage?workspaceId=${workspaceId}`)).body;
    return data.length > 0;
  });
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('the overview asks for all that it shows while its code is still on the way, and for nothing twice', async () => {
  const { page, close } = await signedIn(browser, world);
  let asked: string[] = [];
  page.on('request', (request) => asked.push(request.url().replace(world.api.url, '')));
  await page.addInitScript(NO_POLLING);
  await page.route('**/console/assets/main-*.js', async (route) => {
    await eventually('the rest is asked for', async () => new Set(asked.filter(isShown)).size === 7);
    await route.continue();
  });
  for (const path of ['', '/', '/overview']) {
    asked = [];
    await page.goto(`${world.api.url}/console/w/${workspaceId}${path}`);
    await inTable(page, 'Credits used by usage', 'forecast');
    await settled(page);
    assert.equal(asked.length, new Set(asked).size, asked.join('\n'));
  }
  await close();
});

test('what a token may not read is not asked for', async () => {
  const token = await world.newToken(world.team.id, ['workspace:read', 'webhook:read']);
  const { page, close } = await visit(browser);
  await signIn(page, world.api.url, token);
  const refused: string[] = [];
  page.on('response', (response) => void (response.status() >= 400 && refused.push(response.url())));
  await open(page);
  await page.getByText('There is no webhook.').waitFor();
  await settled(page);
  assert.equal(refused, []);
  await close();
});

test('a page makes no format of dates and numbers, of which the first takes long', async () => {
  const { page, close } = await visit(browser);
  await page.addInitScript(NOTES);
  await page.goto(`${world.api.url}/console`);
  await signIn(page, world.api.url, world.team.token);
  await open(page);
  await inTable(page, 'Credits used by usage', 'forecast');
  await eventually('both charts are drawn', () => page.evaluate<boolean>('drawn.size === 2'));
  assert.equal(await page.evaluate(`notes.filter((note) => note === 'format')`), []);
  await page.evaluate('new Intl.NumberFormat()');
  assert.equal(await page.evaluate(`notes.filter((note) => note === 'format')`), ['format']);
  await close();
});

test('a chart is drawn once, and again where its width changes', async () => {
  const { page, close } = await signedIn(browser, world);
  await page.addInitScript(NO_POLLING);
  await page.addInitScript(NOTES);
  await open(page);
  await inTable(page, 'Credits used by usage', 'forecast');
  await settled(page);
  await eventually('both are drawn', () => page.evaluate<boolean>('drawn.size === 2'));
  // Two frames: what is told of sizes comes with the next one.
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
  assert.equal(await page.evaluate('[...drawn.values()]'), [1, 1]);
  await page.setViewportSize({ width: 700, height: 800 });
  await eventually('both are as wide as their places', () =>
    page.evaluate<boolean>(
      `[...drawn].every(([canvas, times]) => times === 2 && canvas.clientWidth === canvas.closest('figure').firstElementChild.clientWidth)`,
    ),
  );
  await close();
});

const isShown = (path: string) =>
  /^\/api\/v1\/(verifications\?|usage\?|webhook\?|workspace\/\w+\/(customer|proof))/.test(path);

async function open(page: Page): Promise<void> {
  await page.goto(`${world.api.url}/console/w/${workspaceId}/overview`);
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
}

test.run();
