import * as assert from 'uvu/assert';
import { must } from '../../helpers/customers.ts';
import { inTable, requireAccessible, visit } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';

// What somebody does first.

const { test, own } = await consoleSuite('the first page of the console');

test('a code behind the # signs in once, and leaves the address; who comes second is told so', async () => {
  const link = async () => (await must(201, own.world.call('post', '/console/session/link'))).body.code as string;
  const first = await visit(own.browser);
  const code = await link();
  await first.page.goto(`${own.world.api.url}/console#${code}`);
  await first.page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  assert.is(first.page.url(), `${own.world.api.url}/console`);
  const second = await visit(own.browser);
  await second.page.goto(`${own.world.api.url}/console#${code}`);
  await second.page.getByRole('alert').getByText('The link to sign in was used').waitFor();
  // Into the page that is open: only the fragment changes.
  await second.page.evaluate(`location.hash = '${await link()}'`);
  await second.page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
});

test('who signs in makes a key, whose secret is shown once and verifies, and finds it in the list', async () => {
  const { page, complaints } = await visit(own.browser);
  await page.goto(`${own.world.api.url}/console`);
  const signIn = async (token: string) => {
    await page.getByLabel('Access token').fill(token);
    await page.keyboard.press('Enter');
  };
  await signIn('kt_nonsense');
  const told = page.getByRole('alert');
  await told.getByText('The access token is unknown, expired or revoked; use a valid one.').waitFor();
  assert.match(await told.innerText(), /Request \S+/);
  await signIn(own.world.team.token);
  await page.getByRole('link', { name: 'Weather' }).click();
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Keys' }).click();
  await page.getByText('No key yet.').waitFor();
  await page.getByRole('button', { name: 'New key' }).click();
  const form = page.getByRole('dialog', { name: 'New key' });
  await form.getByLabel('Name', { exact: true }).fill('Backend');
  await form.getByRole('button', { name: 'Create key' }).click();
  const made = page.getByRole('dialog', { name: 'The new key' });
  const secret = await made.getByLabel('Secret of the key').inputValue();
  assert.is((await own.customers.verify({ key: secret })).body.status, 'VALID');
  await made.getByRole('button', { name: 'Close' }).click();
  await page.locator('dialog').waitFor({ state: 'detached' });
  await inTable(page, 'Keys', 'Backend');
  assert.not.ok((await page.content()).includes(secret));
  await requireAccessible(page, 'keys');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
  await page.reload();
  await page.getByLabel('Access token').waitFor();
  assert.equal(complaints, []);
});
