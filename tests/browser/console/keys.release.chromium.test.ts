import { readFileSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { eventually, must } from '../../helpers/world.ts';
import { inTable, rowOf, settled } from './helpers/browser.ts';
import { answer, confirm, fill, focused, press, pressClose, tick, type } from './helpers/keyboard.ts';
import { consoleSuite } from './helpers/suite.ts';

// Every task of the pages of keys, by keyboard alone.

const { test, own } = await consoleSuite('keys in the console');

test('a search without a find stops after 20 pages, and looks further where one asks', async () => {
  const { page } = await own.open('keys');
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
});

test('Back leads to the question that was asked, and a list is sorted as one asks', async () => {
  for (const name of ['sorted b', 'sorted c', 'sorted a']) await own.customers.newKey({ name });
  const { page } = await own.open('keys');
  const names = async () => (await page.getByRole('region', { name: 'Keys' }).getByRole('link').allInnerTexts()).join();
  const shows = (wanted: string) => eventually(`the keys are ${wanted}`, async () => (await names()) === wanted);
  await fill(page, { 'Find keys': 'sorted' });
  await shows('sorted b,sorted c,sorted a');
  await press(page, 'Name');
  await shows('sorted a,sorted b,sorted c');
  await press(page, 'Name');
  await shows('sorted c,sorted b,sorted a');
  await page.getByRole('columnheader', { name: 'Name' }).and(page.locator('[aria-sort=descending]')).waitFor();
  await press(page, 'sorted a');
  await page.getByRole('heading', { level: 1, name: 'sorted a' }).waitFor();
  await page.goBack();
  await shows('sorted c,sorted b,sorted a');
  assert.is(await page.getByLabel('Find keys').inputValue(), 'sorted');
  await page.goBack();
  await page.goBack();
  await shows('sorted b,sorted c,sorted a');
});

test('what is unused for 90 days is found, saved as CSV without a secret and disabled at once', async () => {
  const keys = await Promise.all(
    ['old', 'older', 'new'].map((name) => own.customers.newKey({ name: `unused ${name}` })),
  );
  await own.world.sql`
    update api_keys set created_at = now() - interval '91 days' where name in ('unused old', 'unused older')`;
  const { page } = await own.open('keys');
  await type(page, 'Show', 'those unused');
  await fill(page, { 'Find keys': 'unused' });
  const saved = page.waitForEvent('download');
  await press(page, 'Download CSV');
  const csv = readFileSync(await (await saved).path(), 'utf8');
  assert.equal(csv.match(/unused \w+/g)?.toSorted(), ['unused old', 'unused older']);
  for (const { key } of keys) assert.not.ok(csv.includes(key));
  const statuses = () => Promise.all(keys.map(async ({ key }) => (await own.customers.verify({ key })).body.status));
  await press(page, 'Disable these 2 keys');
  await press(page, 'Disable them');
  await page.getByText('No key fits').waitFor();
  assert.equal(await statuses(), ['DISABLED', 'DISABLED', 'VALID']);
});

test('one search finds a key by its whole secret, a customer by a part of its name, and a page', async () => {
  await own.customers.newMeter({ externalMeterId: 'Initech' });
  const { key } = await own.customers.newKey({ name: 'Initech scanner', externalMeterId: 'Initech' });
  const { page } = await own.open('settings');
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  for (const [text, kind, title] of [
    [key, 'key', 'Initech scanner'],
    [`Authorization: Bearer ${key}`, 'key', 'Initech scanner'],
    ['initec', 'customer', 'Initech'],
    ['web', 'page', 'Webhooks'],
  ] as const) {
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog', { name: 'Search' }).waitFor();
    assert.is(await focused(page), 'Look for');
    await page.keyboard.type(text);
    if (kind !== 'page') await page.getByRole('dialog').getByRole('listitem').first().getByText(kind).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
  }
  await page.getByRole('link', { name: 'Usage' }).click();
  await fill(page, { 'Only the key (id)': key });
  await page.getByText('Nothing was used').waitFor();
  assert.not.ok(asked.join().includes(key), 'the secret leaves the field for nowhere');
});

test('a search that reads a part of a long list says so, finds what is exactly so all the same, and what may be a secret as one asks', async () => {
  const id = 'cus_0123456789abcdef01234567';
  await own.customers.newMeter({ externalMeterId: id });
  const { page } = await own.open('settings');
  let reads = 0;
  await page.route(/search=/, (route) => {
    reads += 1;
    return route.fulfill({ json: { items: [], nextCursor: `${reads}` } });
  });
  await page.keyboard.press('Control+k');
  const found = page.getByRole('dialog', { name: 'Search' });
  await page.getByLabel('Look for').fill(id);
  await found.getByText('Not all were looked through').waitFor();
  assert.is(reads, 4, 'of keys and of customers two pages, once');
  assert.is(await found.getByText('Nothing fits').count(), 0);
  await press(page, 'It is an id: look for all of it');
  await found.getByRole('link', { name: id }).waitFor();
});

test('a key is made, copied, found, edited, limited, granted scopes, rotated, disabled and deleted, each in force', async () => {
  const scope = { name: 'Invoices', representation: 'invoices' };
  await must(201, own.world.call('post', `/api/v1/workspace/${own.workspaceId}/scope`, scope));
  await own.customers.newKey({ name: 'Another' });
  const { page } = await own.open('keys');
  await page.keyboard.press('Tab');
  assert.is(await focused(page), 'Skip to the page');
  await press(page, 'New key');
  await page.getByRole('dialog', { name: 'New key' }).getByLabel('Prefix').waitFor();
  assert.is(await focused(page), 'Name');
  for (const [field, text] of Object.entries({
    Name: 'By keyboard',
    Customer: 'cus_keyboard',
    Credits: '1,000.5',
    'At most so many requests': '2',
    Prefix: 'kb',
  }))
    await type(page, field, text);
  await tick(page, 'Create');
  await page.keyboard.press('Enter');
  const made = page.getByRole('dialog', { name: 'The new key' });
  const secret = await made.getByLabel('Secret of the key').inputValue();
  for (const [language, text] of Object.entries({ Python: 'Client(url=', Go: 'keytally.New(', curl: 'curl http' })) {
    await made.getByLabel('Verify it by').selectOption(language);
    await made.getByText(text).waitFor();
  }
  assert.match(await made.locator('pre').innerText(), `"key": "${secret}"`);
  await made.getByText('Waiting for its first call').waitFor();
  const wanted = [{ representation: 'invoices', create: true }];
  const called = await own.customers.verify({ key: secret, requestedScopes: wanted, billing: { usage: '0.5' } });
  assert.is(called.body.status, 'VALID');
  await made.getByText('Its first call came: Valid').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  assert.is(await made.getByLabel('Secret of the key').inputValue(), secret, 'it is shown once, and not copied yet');
  await press(page, 'Copy');
  await made.getByText('Copied').waitFor();
  assert.is(await page.evaluate<string>('navigator.clipboard.readText()'), secret);
  assert.match(secret, /^kb_/);
  await page.keyboard.press('Escape');
  await made.waitFor({ state: 'detached' });
  assert.is(await focused(page), 'New key');
  for (const text of ['by KEY', 'cus_keyb', secret]) {
    await page.getByLabel('Find keys').fill('');
    await fill(page, { 'Find keys': 'nowhere' });
    await page.getByText('No key fits').waitFor();
    await page.getByLabel('Find keys').fill('');
    await fill(page, { 'Find keys': text });
    await inTable(page, 'Keys', 'By keyboard');
    assert.is(await rowOf(page, 'Keys', 'Another').count(), 0);
    assert.not.ok(page.url().includes(secret), 'of a secret its masked form is looked for');
  }
  await press(page, 'cus_keyboard');
  await page.getByText('1,000 credits available').waitFor();
  await press(page, 'By keyboard');
  await page.getByRole('heading', { level: 1, name: 'By keyboard' }).waitFor();

  await press(page, 'Edit');
  await page.getByRole('dialog').waitFor();
  assert.is(await focused(page), 'Name');
  await fill(page, { Name: 'Typed', Addresses: 'not an address' });
  await page.getByRole('alert').getByText('Addresses', { exact: true }).waitFor();
  await page.getByRole('dialog').getByText('Write addresses such as').waitFor();
  await page.getByLabel('Addresses').fill('203.0.113.0/24');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Typed' }).waitFor();
  await page.getByText('203.0.113.0/24').waitFor();
  await tick(page, 'Read');
  await press(page, 'Save scopes');
  await page.getByRole('button', { name: 'Save scopes', disabled: false }).waitFor();

  await press(page, 'Rotate');
  await type(page, 'Keep the old secret working for', 'an hour');
  await press(page, 'Rotate key');
  const rotated = await page.getByRole('dialog', { name: 'The new secret' }).getByRole('textbox').inputValue();
  await pressClose(page);
  const asked = { ip: '203.0.113.7', requestedScopes: [{ representation: 'invoices', read: true }] };
  const verified = async (key: string) => (await own.customers.verify({ key, ...asked })).body.status;
  assert.equal([await verified(secret), await verified(rotated)], ['VALID', 'RATE_LIMITED'], 'they share the limit');
  await confirm(page, 'Delete per day', 'Delete for good');
  assert.equal([await verified(secret), await verified(rotated)], ['VALID', 'VALID']);
  await page.getByRole('region', { name: 'The earlier secret' }).getByText('still works, until').waitFor();
  await press(page, 'End it now');
  await page.getByRole('region', { name: 'The earlier secret' }).waitFor({ state: 'detached' });
  assert.equal([await verified(secret), await verified(rotated)], ['INVALID', 'VALID']);
  await answer(page, 'New limit', 'New limit', { Per: 'day', Name: 'daily', 'At most': '1' });
  await inTable(page, 'Limits', 'daily');
  await answer(page, 'Edit daily', 'Edit the limit', { 'At most': '3' });
  await rowOf(page, 'Limits', 'daily').getByText('3').waitFor();
  await press(page, 'Disable');
  // The second click of a double one changes nothing back.
  await page.getByRole('button', { name: 'Enable' }).dispatchEvent('click', { detail: 2 });
  await press(page, 'Enable');
  await page.getByRole('button', { name: 'Disable' }).waitFor();
  await confirm(page, 'Delete', 'Delete for good');
  await page.getByText('Deleted', { exact: true }).waitFor();
  assert.is(await page.getByRole('button', { name: 'Rotate' }).count(), 0, 'nothing is left to do with it');
  assert.is((await own.customers.verify({ key: rotated })).body.status, 'DELETED');
});
