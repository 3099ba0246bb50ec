import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContextOptions, type Locator, type Page } from 'playwright-core';
import * as assert from 'uvu/assert';
import { checkout } from '../../../../apps/stack/process/home.ts';
import { eventually } from '../../../helpers/world.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
// WCAG 2.2, levels A and AA.
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/** A page of the console as a person sees it, and what the browser complained about. */
export type Visit = { page: Page; complaints: string[] };

/** Starts the Chromium of the test run. */
export async function launch(): Promise<Browser> {
  const name = process.env.TEST_CHROMIUM ?? '';
  const executablePath = execFileSync('sh', ['-c', 'command -v "$0"', name], { encoding: 'utf8' }).trim();
  // A busy machine needs more than the usual half minute.
  return chromium.launch({ executablePath, timeout: 120_000, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/** Opens a browser of its own, without cookies. */
export async function visit(browser: Browser, options: BrowserContextOptions = {}): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: 'en-GB', ...options });
  const page = await context.newPage();
  // A busy machine needs more than the usual half minute.
  page.setDefaultTimeout(30_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    // What the api refuses is told here too, and is what some tests want.
    if (['error', 'warning'].includes(message.type()) && !message.text().startsWith('Failed to load resource'))
      complaints.push(message.text());
  });
  return { page, complaints };
}

/** Gives the row of a table that has this text in a cell. */
export function rowOf(page: Page, table: string, text: string): Locator {
  return page.getByRole('region', { name: table, exact: true }).getByRole('row').filter({ hasText: text });
}

/** Waits until a row of a table has this text. */
export async function inTable(page: Page, table: string, text: string): Promise<void> {
  await rowOf(page, table, text).first().waitFor();
}

/** Signs in as a person does. */
export async function signIn(page: Page, url: string, token: string): Promise<void> {
  await page.goto(`${url}/console`);
  await page.getByLabel('Access token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
}

/** Fails where a page, or the dialog over it, breaks a rule of WCAG 2.2 A or AA that a program can check. */
export async function requireAccessible(page: Page, what: string): Promise<void> {
  if (!(await page.evaluate<boolean>('Boolean(window.axe)'))) await page.evaluate(axe);
  const run = `axe.run(document.querySelector('dialog') ?? document, { runOnly: { type: 'tag', values: ${JSON.stringify(TAGS)} } })`;
  const { violations } = await page.evaluate<{ violations: Violation[] }>(run);
  const told = violations.map(({ id, nodes }) => [
    id,
    ...nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`),
  ]);
  assert.equal(told, [], what);
}

/** Fails where a stranger's text has become an element, the window or a table scrolls sideways, the menu takes a second line, a number does not stand at the right, or a cell is cut that does not tell all of it on hover. */
async function requireFits(page: Page, what: string): Promise<void> {
  const found = await page.evaluate<string[]>(`[
    ...[...document.querySelectorAll('[data-x]')].map((one) => 'an element: ' + one.outerHTML),
    ...[document.documentElement].filter((one) => one.scrollWidth > window.innerWidth).map(() => 'the window'),
    ...[...document.querySelectorAll('.table')].filter((one) => one.scrollWidth > one.clientWidth)
      .map((one) => 'sideways: ' + one.getAttribute('aria-label')),
    ...[...document.querySelectorAll('.table :is(td, th):not(.space *)')]
      .filter((one) => one.scrollWidth > one.clientWidth && !one.querySelector('[title]:not(time)'))
      .map((one) => 'cut: ' + one.innerText),
    ...[...document.querySelectorAll('.table td > .amount')]
      .filter((one) => getComputedStyle(one.parentElement).textAlign !== 'right').map((one) => 'a number at the left: ' + one.innerText),
    ...[...document.querySelectorAll('nav.menu')].filter((one) => one.clientHeight > 56).map(() => 'a menu of two lines'),
  ]`);
  assert.equal(found, [], what);
}

/** Fails where what stands there breaks a rule of WCAG or does not fit its window, dark and narrow, light and wide. */
export async function requireInAllLooks(page: Page, name: string): Promise<void> {
  for (const [width, colorScheme] of [
    [360, 'dark'],
    [1280, 'light'],
  ] as const) {
    await page.setViewportSize({ width, height: 800 });
    // Else colours pass from one theme to the other while they are looked at.
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await settled(page);
    const what = `${name}, ${colorScheme}, ${width} px`;
    await requireAccessible(page, what);
    await requireFits(page, what);
  }
  // A wider window has the same elements and colours.
  await page.setViewportSize({ width: 1920, height: 800 });
  await requireFits(page, `${name}, 1920 px`);
  await page.setViewportSize({ width: 1280, height: 800 });
}

// What fonts and dates may differ by; less than a line and a row.
const SLACK_PX = 40;

/** Fails where a page is higher or lower than its picture in the docs; with `PICTURES=1` it takes the picture, in both themes. */
export async function requireAsPictured(page: Page, name: string): Promise<void> {
  const pathOf = (theme: string) => join(checkout, `docs/images/${name}-${theme}.png`);
  if (process.env.PICTURES) {
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.screenshot({ path: pathOf(colorScheme), fullPage: true });
    }
  }
  const height = await page.evaluate<number>('document.documentElement.scrollHeight');
  // Where a PNG has its height.
  const pictured = readFileSync(pathOf('light')).readUInt32BE(20);
  assert.ok(Math.abs(height - pictured) <= SLACK_PX, `${name} is ${height} px high, and its picture ${pictured}`);
}

/** Waits until nothing loads any more. */
export async function settled(page: Page): Promise<void> {
  await page.waitForLoadState('networkidle');
  await eventually('nothing is busy', async () => (await page.locator('[aria-busy="true"]').count()) === 0);
}

type Violation = { id: string; nodes: { html: string; failureSummary: string }[] };
