import * as assert from 'uvu/assert';
import { requireInAllLooks, settled, signIn, visit } from './helpers/browser.ts';
import { FAILING } from './helpers/data.ts';
import { shownSuite } from './helpers/suite.ts';

// How pages and dialogs look: light and dark, wide and narrow.

const { test, own, shown } = await shownSuite('how the console looks');

test('every page fits its window, keeps to WCAG 2.2 AA, and makes no element of what a stranger wrote', async () => {
  const { page, complaints, close } = await visit(own.browser);
  await page.goto(`${own.world.api.url}/console`);
  await page.getByRole('heading', { name: 'keytally' }).waitFor();
  await requireInAllLooks(page, 'sign-in');
  await signIn(page, own.world.api.url, shown.token);
  await requireInAllLooks(page, 'workspaces');
  for (const [path, text, name = path] of [
    ['overview', 'Overview'],
    ['keys', 'Northwind backend'],
    [`keys/${shown.keyId}`, 'Northwind backend', 'key'],
    ['why', 'Why was this refused?'],
    ['customers', 'northwind-api'],
    [`customers/${shown.billingId}`, 'northwind-api', 'customer'],
    ['webhooks', FAILING],
    [`webhooks/${shown.webhookId}`, 'Finance chat', 'webhook'],
    ['usage', 'Usage'],
    ['scopes', 'Scopes'],
    ['tokens', 'Tokens'],
    ['audit-log', 'Audit log'],
    ['settings', 'Settings'],
  ] as const) {
    await page.goto(`${own.world.api.url}/console/w/${shown.workspaceId}/${path}`);
    await page.getByText(text).first().waitFor();
    await requireInAllLooks(page, name);
  }
  assert.equal(complaints, []);
  await close();
});

/** Of each page the buttons that open a dialog, with its title where that is another text. */
const dialogs = (): Record<string, (readonly [button: string, title?: string])[]> => ({
  keys: [['New key']],
  [`keys/${shown.keyId}`]: [
    ['Rotate', 'Rotate the key'],
    ['Edit', 'Edit the key'],
    ['Delete', 'Delete the key'],
    ['New limit'],
    ['Edit burst', 'Edit the limit'],
  ],
  customers: [['New record', 'New billing record']],
  [`customers/${shown.billingId}`]: [
    ['Refill'],
    ['Grant credits'],
    ['Overage and cap'],
    ['Void campaign in spring', 'Void the grant'],
    ['New schedule'],
    ['Delete the schedule included', 'Delete the schedule'],
    ['Portal link', 'New portal link'],
    ['New alert'],
    ['Edit low', 'Edit the alert'],
  ],
  scopes: [['New scope'], ['Edit archive', 'Edit the scope'], ['Delete archive', 'Delete the scope']],
  tokens: [['New token'], ['Revoke Gateway', 'Revoke the token']],
  webhooks: [['New webhook']],
  [`webhooks/${shown.webhookId}`]: [
    ['webhook.test'],
    ['Edit', 'Edit the webhook'],
    ['Rotate secret', 'Rotate the secret'],
    ['Delete', 'Delete the webhook'],
  ],
  'audit-log': [['POST /webhook', 'POST /api/v1/webhook']],
  settings: [['Edit', 'Edit the workspace'], ['Delete the workspace']],
});

test('every dialog does, what is shown once, and an error', async () => {
  const { page, close } = await own.open('keys', shown.token);
  const at = (path: string) => page.goto(`${own.world.api.url}/console/w/${shown.workspaceId}/${path}`);
  const look = async (name: string) => {
    await settled(page);
    await requireInAllLooks(page, `dialog-${name.replaceAll(/\W+/g, '-').toLowerCase()}`);
  };
  for (const [path, all] of Object.entries(dialogs())) {
    await at(path);
    for (const [button, title = button] of all) {
      await page.getByRole('button', { name: button, exact: true }).first().click();
      const dialog = page.getByRole('dialog', { name: title, exact: true });
      await dialog.waitFor();
      await dialog.getByText('Loading…').waitFor({ state: 'detached' });
      await look(title);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
  }
  const send = (button: string) => page.getByRole('dialog').getByRole('button', { name: button }).click();
  await at(`customers/${shown.billingId}`);
  await page.getByRole('button', { name: 'Portal link' }).click();
  await send('Make the link');
  await page.getByLabel('Portal link', { exact: true }).waitFor();
  await look('the new portal link');
  await at('settings');
  await page.getByRole('button', { name: 'New limit' }).click();
  await page.getByLabel('Name').fill('hourly');
  await page.getByLabel('At most').fill('-1');
  await send('Add limit');
  await page.getByRole('alert').waitFor();
  await look('limits with an error');
  await close();
});
