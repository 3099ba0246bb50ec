import * as assert from 'uvu/assert';
import { must } from '../../helpers/customers.ts';
import { eventually } from '../../helpers/world.ts';
import { inTable, rowOf, settled } from './helpers/browser.ts';
import { answer, confirm, fill, focused, press, pressClose, tick } from './helpers/keyboard.ts';
import { consoleSuite } from './helpers/suite.ts';

// Every task of the pages of keys, by keyboard alone.

const { test, own } = await consoleSuite('keys in the console');

test('a search without a find stops after 20 pages, and looks further where one asks', async () => {
  const { page, close } = await own.open('keys');
  let reads = 0;
  await page.route('**/api-keys?*', (route) => {
    reads += 1;
    return route.fulfill({ json: { apiKeys: [], nextCursor: `${reads}` } });
  });
  await fill(page, { 'Find keys': 'nowhere' });
  const stopsAfter = async (pages: number) => {
    await eventually(`${pages} pages are read`, async () => reads === pages);
    await page.getByText('Nothing more was found so far.').waitFor();
    await settled(page);
    assert.is(reads, pages);
  };
  await stopsAfter(20);
  await press(page, 'Look further');
  await stopsAfter(40);
  await close();
});

test('a key is made, copied, found, edited, limited, granted scopes, rotated, disabled and deleted, each in force', async () => {
  const scope = { name: 'Invoices', representation: 'invoices' };
  await must(201, own.world.call('post', `/api/v1/workspace/${own.workspaceId}/scope`, scope));
  await own.customers.newKey({ name: 'Another' });
  const { page, close } = await own.open('keys');
  await page.keyboard.press('Tab');
  assert.is(await focused(page), 'Skip to the page');
  await answer(page, 'New key', 'New key', { Name: 'By keyboard', Customer: 'cus_keyboard', Prefix: 'kb' });
  const made = page.getByRole('dialog', { name: 'The new key' });
  const secret = await made.getByLabel('Secret of the key').inputValue();
  await press(page, 'Copy');
  await made.getByText('Copied').waitFor();
  assert.is(await page.evaluate<string>('navigator.clipboard.readText()'), secret);
  assert.match(secret, /^kb_/);
  await page.keyboard.press('Escape');
  await made.waitFor({ state: 'detached' });
  assert.is(await focused(page), 'New key');
  for (const text of ['by KEY', 'cus_keyb', secret.slice(-4)]) {
    await page.getByLabel('Find keys').fill('');
    await fill(page, { 'Find keys': 'nowhere' });
    await page.getByText('No key has this in its name').waitFor();
    await page.getByLabel('Find keys').fill('');
    await fill(page, { 'Find keys': text });
    await inTable(page, 'Keys', 'By keyboard');
    assert.is(await rowOf(page, 'Keys', 'Another').count(), 0);
  }
  await press(page, 'By keyboard');
  await page.getByRole('heading', { level: 1, name: 'By keyboard' }).waitFor();

  await press(page, 'Edit');
  await page.getByRole('dialog').waitFor();
  assert.is(await focused(page), 'Name');
  await fill(page, { Name: 'Typed', Addresses: 'not an address' });
  await page.getByRole('alert').getByText('Addresses/0', { exact: true }).waitFor();
  await page.getByLabel('Addresses').fill('203.0.113.0/24');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Typed' }).waitFor();
  await page.getByText('203.0.113.0/24').waitFor();
  await tick(page, 'Read');
  await press(page, 'Save scopes');
  await page.getByRole('button', { name: 'Save scopes', disabled: false }).waitFor();

  await answer(page, 'Rotate', 'Rotate the key', { 'Hours of grace': '1' });
  const rotated = await page.getByRole('dialog', { name: 'The new secret' }).getByRole('textbox').inputValue();
  await pressClose(page);
  const asked = { ip: '203.0.113.7', requestedScopes: [{ representation: 'invoices', read: true }] };
  for (const key of [secret, rotated]) assert.is((await own.customers.verify({ key, ...asked })).body.status, 'VALID');
  await answer(page, 'New limit', 'New limit', { Per: 'day', Name: 'daily', 'At most': '1' });
  await inTable(page, 'Limits', 'daily');
  await answer(page, 'Edit daily', 'Edit the limit', { 'At most': '3' });
  await rowOf(page, 'Limits', 'daily').getByText('3').waitFor();
  await press(page, 'Disable');
  await page.getByRole('button', { name: 'Enable' }).waitFor();
  await press(page, 'Enable');
  await page.getByRole('button', { name: 'Disable' }).waitFor();
  await confirm(page, 'Delete', 'Delete for good');
  await page.getByText('Deleted', { exact: true }).waitFor();
  assert.is(await page.getByRole('button', { name: 'Rotate' }).count(), 0, 'nothing is left to do with it');
  assert.is((await own.customers.verify({ key: rotated })).body.status, 'DELETED');
  await close();
});
