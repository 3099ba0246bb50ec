import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { requireAccessible, requireFits, requirePublic, requireWhole, settled, signIn, visit } from './browser.ts';
import { FAILING } from './data.ts';
import { shownSuite } from './shown-suite.ts';

// PICTURES names a folder that keeps the upper part of each wide page: docs/images/console. WHOLE_PICTURES keeps whole pages, wide
// and narrow.
const { WHOLE_PICTURES: whole, PICTURES: kept } = process.env;
const widths = [1280, 360];
const KEPT_PX = 1_100;

/** Looks at every page in a theme, wide and narrow. */
export function testPages(colorScheme: 'light' | 'dark'): void {
  const { test, own } = shownSuite(`pages of the console in ${colorScheme}`);
  test.before(() => {
    for (const folder of [kept, whole]) if (folder) mkdirSync(folder, { recursive: true });
  });

  test(`every page in ${colorScheme} fits its window, keeps to WCAG 2.2 AA, breaks no rule of its own, and asks for what a script can`, async () => {
    const { page, complaints, asked, close } = await visit(own.browser, { colorScheme });
    const look = async (name: string, heading: string, level = 1) => {
      await page.getByRole('heading', { level, name: heading }).waitFor();
      for (const width of widths) {
        await page.setViewportSize({ width, height: 800 });
        await settled(page);
        await requireAccessible(page, `${name}, ${colorScheme}, ${width} px`);
        await requireFits(page, `${name} at ${width} px`);
        // Behind a dialog the page stands still.
        const fullPage = level === 1;
        if (whole) await page.screenshot({ path: join(whole, `${name}-${colorScheme}-${width}.png`), fullPage });
        await requireWhole(page, `${name} at ${width} px`);
        if (!kept || width !== widths[0]) continue;
        const height = Math.min(KEPT_PX, await page.evaluate<number>('document.documentElement.scrollHeight'));
        const clip = { x: 0, y: 0, width, height: fullPage ? height : 800 };
        await page.screenshot({ path: join(kept, `${name}-${colorScheme}.png`), fullPage, clip });
      }
      await page.setViewportSize({ width: widths[0]!, height: 800 });
    };
    await page.goto(`${own.world.api.url}/console`);
    await look('sign-in', 'keytally');
    await signIn(page, own.world.api.url, own.shown.token);
    await look('workspaces', 'Choose a workspace');
    await page.getByRole('link', { name: 'Weather, production' }).click();
    await look('overview', 'Overview');
    const menu = page.getByRole('navigation', { name: 'Pages' });
    await menu.getByRole('link', { name: 'Keys' }).click();
    await look('keys', 'Keys');
    await page.getByRole('link', { name: 'Northwind backend' }).click();
    await look('key', 'Northwind backend');
    await page.getByRole('link', { name: 'Why was it refused?' }).click();
    await look('why', 'Why was this refused?');
    await menu.getByRole('link', { name: 'Customers' }).click();
    await look('customers', 'Customers');
    await page.getByRole('link', { name: 'northwind-api' }).click();
    await look('customer', 'northwind-api');
    await page.getByRole('button', { name: 'Portal link' }).click();
    await page.getByLabel('Customer', { exact: true }).waitFor();
    await look('portal-link', 'New portal link', 2);
    await page.keyboard.press('Escape');
    await menu.getByRole('link', { name: 'Webhooks' }).click();
    await page.getByRole('link', { name: FAILING }).waitFor();
    await look('webhooks', 'Webhooks');
    await page.getByRole('link', { name: FAILING }).click();
    await look('webhook', 'Finance chat');
    for (const title of ['Usage', 'Scopes', 'Tokens', 'Audit log', 'Settings']) {
      await menu.getByRole('link', { name: title }).click();
      await look(title.toLowerCase().replace(' ', '-'), title);
    }
    assert.equal(complaints, []);
    await requirePublic(own.world, asked);
    await close();
  });

  test.run();
}
