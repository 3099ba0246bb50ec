import type { Browser } from 'playwright-core';
import { suite } from 'uvu';
import { makeWorld, type World } from '../../helpers/world.ts';
import { launch, requireInAllLooks, requirePublic, signedIn } from './helpers/browser.ts';
import { makeShown, type Shown } from './helpers/data.ts';
import { requireDialogsInAllLooks } from './helpers/dialogs.ts';

// How dialogs look: what they ask for.

let world: World;
let browser: Browser;
let shown: Shown;
const test = suite('dialogs of all pages but customers in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  shown = await makeShown(world);
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('every dialog keeps to WCAG 2.2 AA and fits its window, in light and dark, wide and narrow', async () => {
  const { page, asked, close } = await signedIn(browser, world);
  const { keyId, webhookId } = shown;
  await requireDialogsInAllLooks(page, `${world.api.url}/console/w/${shown.workspaceId}`, {
    keys: [['New key', 'New key']],
    [`keys/${keyId}`]: [
      ['Rotate', 'Rotate the key'],
      ['Edit', 'Edit the key'],
      ['Delete', 'Delete the key'],
      ['Change limits', 'Limits of the key'],
    ],
    webhooks: [['New webhook', 'New webhook']],
    [`webhooks/${webhookId}`]: [
      ['webhook.test', 'webhook.test'],
      ['Edit', 'Edit the webhook'],
      ['Rotate secret', 'Rotate the secret'],
      ['Delete', 'Delete the webhook'],
    ],
    scopes: [
      ['New scope', 'New scope'],
      ['Edit archive', 'Edit the scope'],
      ['Delete archive', 'Delete the scope'],
    ],
    tokens: [
      ['New token', 'New token'],
      ['Revoke Gateway', 'Revoke the token'],
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
