import type { Browser } from 'playwright-core';
import { suite } from 'uvu';
import { makeWorld, type World } from '../../helpers/world.ts';
import { launch, requirePublic, signedIn } from './helpers/browser.ts';
import { makeShown, type Shown } from './helpers/data.ts';
import { requireDialogsInAllLooks } from './helpers/dialogs.ts';

// How dialogs of a customer's credits look.

let world: World;
let browser: Browser;
let shown: Shown;
const test = suite('dialogs of credits in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  shown = await makeShown(world);
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('every dialog of credits keeps to WCAG 2.2 AA and fits its window, in light and dark, wide and narrow', async () => {
  const { page, asked, close } = await signedIn(browser, world);
  await requireDialogsInAllLooks(page, `${world.api.url}/console/w/${shown.workspaceId}`, {
    [`customers/${shown.billingId}`]: [
      ['Refill', 'Refill'],
      ['Grant credits', 'Grant credits'],
      ['Overage and cap', 'Overage and cap'],
      ['Void campaign in spring', 'Void the grant'],
      ['New schedule', 'New schedule'],
      ['Delete the schedule included', 'Delete the schedule'],
    ],
  });
  await requirePublic(world, asked);
  await close();
});

test.run();
