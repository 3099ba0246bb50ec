import * as assert from 'uvu/assert';
import { makeCustomers } from '../../helpers/customers.ts';
import { inTable, rowOf, visit } from '../console/helpers/browser.ts';
import { focused, press, tabTo } from '../console/helpers/keyboard.ts';
import { newLink, opened, TITLE } from './helpers/portal.ts';
import { shownSuite } from '../console/helpers/shown-suite.ts';

// What a customer does who has opened a link.

const { test, own } = shownSuite('the portal in a browser');

const link = (fields: object = {}) => newLink(own.world, { workspaceId: own.shown.workspaceId, ...fields });

const open = async (fields: object) => opened(own.browser, own.world, await link(fields));

test('a customer finds their own keys, balance by grant, usage by day and the statement, with a file of it', async () => {
  const { page, complaints, close } = await open({ billingId: own.shown.billingId });
  await inTable(page, 'Keys', 'Northwind backend');
  assert.is(await rowOf(page, 'Keys', 'Harbour office').count(), 0, "no other customer's");
  assert.is(await page.getByRole('button', { name: /^Rotate/ }).count(), 0, 'the link does not permit it');
  await page.getByText('credits available').waitFor();
  await inTable(page, 'Grants', 'trial');
  await inTable(page, 'Usage by day', 'archive');
  const month = page.getByLabel('Month');
  await inTable(page, 'Movements', new Date().toISOString().slice(0, 7));
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download the statement' }).click();
  assert.match((await download).suggestedFilename(), /^statement-\d{4}-\d\d-portal\.csv$/);
  await month.fill('2020-01');
  await page.getByText('Nothing moved in this month.').waitFor();
  assert.equal(complaints, []);
  await close();
});

test('a page beside which another link is opened shows nothing more of the one before', async () => {
  const { page, close } = await open({ billingId: own.shown.billingId });
  await inTable(page, 'Keys', 'Northwind backend');
  const other = await page.context().newPage();
  await other.goto(`${own.world.api.url}/portal#${await link({ customerId: 'somebody else' })}`);
  await other.getByText('You have no API key yet.').waitFor();
  await page.getByText('somebody else').waitFor();
  await page.getByText('You have no API key yet.').waitFor();
  assert.is(await page.getByText('credits available').count(), 0);
  await close();
});

test('a customer rotates a key by keyboard alone: the new secret is shown once and verifies', async () => {
  const { page, close } = await open({ permissions: ['rotate'] });
  await inTable(page, 'Keys', 'Northwind backend');
  await press(page, 'Rotate Northwind backend');
  const form = page.getByRole('dialog', { name: 'Rotate the key' });
  await form.waitFor();
  await press(page, 'Rotate key');
  const made = page.getByRole('dialog', { name: 'The new secret' });
  const secret = await made.getByLabel('Secret of the key').inputValue();
  assert.is((await makeCustomers(own.world, own.shown.workspaceId).verify({ key: secret })).body.status, 'VALID');
  await page.keyboard.press('Escape');
  await made.waitFor({ state: 'detached' });
  assert.is(await focused(page), 'Rotate Northwind backend');
  assert.not.ok((await page.content()).includes(secret));
  await press(page, 'Leave');
  await page.getByText('You have left.').waitFor();
  await page.reload();
  await page.getByRole('alert').getByText('The link has ended').waitFor();
  await close();
});

test('a customer reads another month and saves it by keyboard alone', async () => {
  const { page, close } = await open({ billingId: own.shown.billingId });
  await inTable(page, 'Movements', new Date().toISOString().slice(0, 7));
  await page.keyboard.press('Tab');
  assert.is(await focused(page), 'Skip to the page');
  await tabTo(page, 'Month');
  // The month has the focus, then the year.
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  await page.getByText('Nothing moved in this month.').waitFor();
  const saved = page.waitForEvent('download');
  await press(page, 'Download the statement');
  assert.match(
    (await saved).suggestedFilename(),
    `statement-${await page.getByLabel('Month').inputValue()}-portal.csv`,
  );
  await close();
});

test('a customer without keys and usage is told what to do; without a balance none is shown', async () => {
  const { page, close } = await open({ customerId: 'nobody yet' });
  await page.getByText('You have no API key yet.').waitFor();
  await page.getByText('Nothing was used in these days.').waitFor();
  assert.is(await page.getByRole('heading', { name: 'Balance' }).count(), 0);
  assert.is(await page.getByRole('heading', { name: 'Statement' }).count(), 0);
  await close();
});

test('an error shows what the api said and the id of the request, and another try goes on with the same link', async () => {
  const { page, close } = await visit(own.browser);
  const token = await link();
  await page.route('**/portal/session', (route) => route.abort());
  await page.goto(`${own.world.api.url}/portal#${token}`);
  await page.getByRole('alert').getByText('cannot be reached').waitFor();
  assert.is(page.url(), `${own.world.api.url}/portal`);
  await page.unroute('**/portal/session');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { level: 1, name: TITLE }).waitFor();
  await inTable(page, 'Keys', 'Northwind backend');
  // A second link in the same window: only the fragment changes.
  const other = await link({ customerId: 'harbour' });
  await page.evaluate(`location.hash = '${other}'`);
  await inTable(page, 'Keys', 'Harbour office');
  assert.is(page.url(), `${own.world.api.url}/portal`);
  await page.goto('about:blank');
  await page.goto(`${own.world.api.url}/portal#${other.slice(0, -1)}`);
  const told = page.getByRole('alert');
  await told.getByText('The link has ended, or was never valid').waitFor();
  assert.match(await told.innerText(), /Request \S+/);
  await close();
});

test.run();
