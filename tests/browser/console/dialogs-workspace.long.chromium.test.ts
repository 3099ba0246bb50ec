import type { Browser } from 'playwright-core';
import { suite } from 'uvu';
import { makeWorld, type World } from '../../helpers/world.ts';
import { launch, requireInAllLooks, requirePublic, signedIn } from './helpers/browser.ts';
import { makeShown, type Shown } from './helpers/data.ts';
import { requireDialogsInAllLooks } from './helpers/dialogs.ts';

// How dialogs of a workspace, its webhooks and its audit log look.

let world: World;
let browser: Browser;
let shown: Shown;
const test = suite('dialogs of a workspace in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  shown = await makeShown(world);
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('every dialog of a workspace, its webhooks and audit log keeps to WCAG 2.2 AA and fits its window, in light and dark, wide and narrow', async () => {
  const { page, asked, close } = await signedIn(browser, world);
  await requireDialogsInAllLooks(page, `${world.api.url}/console/w/${shown.workspaceId}`, {
    webhooks: [['New webhook', 'New webhook']],
    [`webhooks/${shown.webhookId}`]: [
      ['webhook.test', 'webhook.test'],
      ['Edit', 'Edit the webhook'],
      ['Rotate secret', 'Rotate the secret'],
      ['Delete', 'Delete the webhook'],
    ],
    'audit-log': [['POST /webhook', 'POST /api/v1/webhook']],
    settings: [
      ['Edit', 'Edit the workspace'],
      ['Change limits', 'Default limits of keys'],
      ['Delete the workspace', 'Delete the workspace'],
    ],
  });
  await page.goto(`${world.api.url}/console`);
  await page.getByRole('button', { name: 'New workspace' }).click();
  await page.getByRole('dialog', { name: 'New workspace' }).waitFor();
  await requireInAllLooks(page, 'dialog-new-workspace');
  await requirePublic(world, asked);
  await close();
});

test.run();
