import { requireInAllLooks, requirePublic, signedIn } from './helpers/browser.ts';
import { requireDialogsInAllLooks } from './helpers/dialogs.ts';
import { shownSuite } from './helpers/shown-suite.ts';

// How dialogs of a workspace, its webhooks and its audit log look.

const { test, own } = shownSuite('dialogs of a workspace in the console');

test('every dialog of a workspace, its webhooks and audit log keeps to WCAG 2.2 AA and fits its window, in light and dark, wide and narrow', async () => {
  const { page, asked, close } = await signedIn(own.browser, own.world);
  await requireDialogsInAllLooks(page, `${own.world.api.url}/console/w/${own.shown.workspaceId}`, {
    webhooks: [['New webhook', 'New webhook']],
    [`webhooks/${own.shown.webhookId}`]: [
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
  await page.goto(`${own.world.api.url}/console`);
  await page.getByRole('button', { name: 'New workspace' }).click();
  await page.getByRole('dialog', { name: 'New workspace' }).waitFor();
  await requireInAllLooks(page, 'dialog-new-workspace');
  await requirePublic(own.world, asked);
  await close();
});

test.run();
