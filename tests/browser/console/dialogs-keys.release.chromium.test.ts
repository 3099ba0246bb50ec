import { requirePublic, signedIn } from './helpers/browser.ts';
import { requireDialogsInAllLooks } from './helpers/dialogs.ts';
import { shownSuite } from './helpers/shown-suite.ts';

// How dialogs of keys, scopes and access tokens look.

const { test, own } = shownSuite('dialogs of keys in the console');

test('every dialog of keys, scopes and access tokens keeps to WCAG 2.2 AA and fits its window, in light and dark, wide and narrow', async () => {
  const { page, asked, close } = await signedIn(own.browser, own.world);
  await requireDialogsInAllLooks(page, `${own.world.api.url}/console/w/${own.shown.workspaceId}`, {
    keys: [['New key', 'New key']],
    [`keys/${own.shown.keyId}`]: [
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
  await requirePublic(own.world, asked);
  await close();
});

test.run();
