import type { Browser } from 'playwright-core';
import { suite } from 'uvu';
import { makeWorld, type World } from '../../helpers/world.ts';
import { launch, requirePublic, signedIn } from './helpers/browser.ts';
import { makeShown, type Shown } from './helpers/data.ts';
import { requireDialogsInAllLooks } from './helpers/dialogs.ts';

// How dialogs of keys, scopes and access tokens look.

let world: World;
let browser: Browser;
let shown: Shown;
const test = suite('dialogs of keys in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  shown = await makeShown(world);
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('every dialog of keys, scopes and access tokens keeps to WCAG 2.2 AA and fits its window, in light and dark, wide and narrow', async () => {
  const { page, asked, close } = await signedIn(browser, world);
  await requireDialogsInAllLooks(page, `${world.api.url}/console/w/${shown.workspaceId}`, {
    keys: [['New key', 'New key']],
    [`keys/${shown.keyId}`]: [
      ['Rotate', 'Rotate the key'],
      ['Edit', 'Edit the key'],
      ['Delete', 'Delete the key'],
      ['Change limits', 'Limits of the key'],
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
  });
  await requirePublic(world, asked);
  await close();
});

test.run();
