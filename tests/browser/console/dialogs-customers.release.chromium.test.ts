import { requireInAllLooks, requirePublic, signedIn } from './helpers/browser.ts';
import { requireDialogsInAllLooks } from './helpers/dialogs.ts';
import { shownSuite } from './helpers/shown-suite.ts';

// How dialogs of customers look, but those of credits; what is shown once, and an error.

const { test, own } = shownSuite('dialogs of customers in the console');

test('every dialog of a customer but those of credits keeps to WCAG 2.2 AA and fits its window, in light and dark, wide and narrow', async () => {
  const { page, asked, close } = await signedIn(own.browser, own.world);
  const { billingId } = own.shown;
  await requireDialogsInAllLooks(page, `${own.world.api.url}/console/w/${own.shown.workspaceId}`, {
    customers: [['New record', 'New billing record']],
    [`customers/${billingId}`]: [
      ['Portal link', 'New portal link'],
      ['Change limits', 'Limits of the record'],
      ['New alert', 'New alert'],
    ],
  });
  await requirePublic(own.world, asked);
  await close();
});

test('what is shown once, limits to fill in, and an error keep to them too', async () => {
  const { page, close } = await signedIn(own.browser, own.world);
  const at = (path: string) => page.goto(`${own.world.api.url}/console/w/${own.shown.workspaceId}/${path}`);
  const send = (button: string) => page.getByRole('dialog').getByRole('button', { name: button }).click();
  await at('keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByLabel('Name').fill('Shown once');
  await send('Create key');
  await page.getByLabel('Secret of the key').waitFor();
  await requireInAllLooks(page, 'dialog-the-new-key');

  await at(`customers/${own.shown.billingId}`);
  await page.getByRole('button', { name: 'Portal link' }).click();
  await send('Make the link');
  await page.getByLabel('Portal link', { exact: true }).waitFor();
  await requireInAllLooks(page, 'dialog-the-new-portal-link');

  await at('settings');
  await page.getByRole('button', { name: 'Change limits' }).click();
  for (let i = 0; i < 2; i++) await send('Add a limit');
  await page.getByLabel('Name').first().fill('hourly');
  await page.getByLabel('At most').first().fill('0');
  await page.getByLabel('Name').last().fill('hourly');
  await page.getByLabel('At most').last().fill('-1');
  await send('Save limits');
  await page.getByRole('alert').waitFor();
  await requireInAllLooks(page, 'dialog-limits-with-an-error');
  await close();
});

test.run();
