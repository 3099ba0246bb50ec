import type { Route } from 'playwright-core';
import * as assert from 'uvu/assert';
import { consoleSuite } from './helpers/suite.ts';

// What the console does where an answer is lost or late: nothing that was shown is gone, and nothing is done twice.

const { test, own } = await consoleSuite('failures in the console');

const away = (route: Route) => route.abort('connectionreset');
// The server does what it was asked, and its answer is lost.
const unanswered = async (route: Route) => {
  await route.fetch();
  await route.abort('connectionreset');
};

test('a new secret stays until its dialog is closed, also where its page can not be read again, and is selected where there is no clipboard', async () => {
  const { id } = await own.customers.newKey({ name: 'Backend' });
  const { page, close } = await own.open(`keys/${id}`);
  await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`);
  await page.getByRole('button', { name: 'Rotate' }).click();
  await page.route(`**/api-key/${id}`, away);
  await page.getByRole('button', { name: 'Rotate key' }).click();
  await page.getByText('cannot be reached').waitFor();
  const made = page.getByRole('dialog', { name: 'The new secret' });
  const secret = await made.getByLabel('Secret of the key').inputValue();
  assert.is((await own.customers.verify({ key: secret })).body.status, 'VALID');
  assert.is(await page.evaluate('document.activeElement.ariaLabel'), 'Secret of the key', 'a screen reader tells it');
  await made.getByRole('button', { name: 'Copy' }).click();
  await made.getByRole('status').getByText('copy it by hand').waitFor();
  assert.is(await page.evaluate('String(getSelection())'), secret);
  await page.keyboard.press('Escape');
  await page.unroute(`**/api-key/${id}`);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('cannot be reached').waitFor({ state: 'detached' });
  await close();
});

test('a refill whose answer was lost shows when its form is closed, and the next one of the same amount is another', async () => {
  const { page, close } = await own.open(`customers/${await newRecord('lost answers')}`);
  await page.getByText('100 credits available').waitFor();
  await page.route('**/refill', unanswered, { times: 1 });
  const refill = async () => {
    await page.getByRole('button', { name: 'Refill' }).click();
    await page.getByRole('dialog').getByLabel('Credits').fill('7');
    await page.getByRole('dialog').getByRole('button', { name: 'Add credits' }).click();
  };
  await refill();
  await page.getByRole('dialog').getByText('cannot be reached').waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('107 credits available').waitFor();
  await refill();
  await page.getByText('114 credits available').waitFor();
  await close();
});

test('who could not be signed out is told so, and is signed in still', async () => {
  const { page, close } = await own.open('keys');
  await page.route('**/console/session', away);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('alert').getByText('cannot be reached').waitFor();
  await page.unroute('**/console/session');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
  await close();
});

test('an address that can not be decoded leads to the choice of a workspace', async () => {
  const { page, close } = await own.open('keys');
  await page.goto(`${own.world.api.url}/console/w/%E0%A4%A/keys`);
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await close();
});

async function newRecord(externalMeterId: string): Promise<string> {
  await own.customers.newMeter({ externalMeterId, totalCredits: '100' });
  return (await own.customers.billing(externalMeterId)).id;
}
