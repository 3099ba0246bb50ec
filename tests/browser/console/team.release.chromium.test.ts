import { readFileSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { eventually } from '../../helpers/world.ts';
import { inTable, rowOf } from './helpers/browser.ts';
import { answer, confirm, fill, press, pressClose, tick, type } from './helpers/keyboard.ts';
import { consoleSuite } from './helpers/suite.ts';

// Every task of the pages of usage, webhooks, scopes, tokens, the audit log and settings, by keyboard alone.

const { test, own } = await consoleSuite('usage, webhooks, tokens and settings in the console');

test('usage is summed as one asks, in the zone asked for, and downloaded', async () => {
  for (const [meter, customerId] of [
    ['northwind', 'north'],
    ['harbour', 'south'],
  ] as const) {
    await own.customers.newMeter({ externalMeterId: meter, totalCredits: '1000' });
    const { key } = await own.customers.newKey({ externalMeterId: meter, customerId });
    for (const route of ['GET /a', 'GET /b'])
      await own.customers.verify({ key, route, billing: { usage: '2.000001', usageName: 'forecast' } });
  }
  await eventually('it is booked', async () => {
    const path = `/api/v1/usage?workspaceId=${own.workspaceId}&groupBy=route`;
    const { data } = (await own.world.call('get', path)).body;
    return data.reduce((sum: number, { events }: { events: number }) => sum + events, 0) === 4;
  });
  const { page } = await own.open('usage');
  await rowOf(page, 'Usage', 'northwind').getByText('4.000002').waitFor();
  await press(page, 'Last month');
  await page.getByText('Nothing was used in this time.').waitFor();
  await press(page, 'This month');
  await page.getByText('8.000004').waitFor();
  // In Oslo the day may have begun that UTC has not.
  await page.getByLabel('To the day').fill(new Date(Date.now() + 86_400_000).toISOString().slice(0, 10));
  await type(page, 'By', 'month');
  await type(page, 'Time zone', 'Europe/Oslo');
  for (const group of ['Customer', 'Usage', 'Customer id', 'Route']) await tick(page, group);
  await fill(page, { 'Only the customer id': 'south' });
  await rowOf(page, 'Usage', 'GET /b').getByText('2.000001').waitFor();
  const table = page.getByRole('region', { name: 'Usage' });
  const headers = ['From (Europe/Oslo)', 'Route', 'Customer id', 'Credits', 'Events'];
  assert.equal(await table.getByRole('columnheader').allInnerTexts(), headers);
  assert.is(await table.getByRole('row').count(), 3);
  const saved = page.waitForEvent('download');
  await press(page, 'Download Parquet');
  assert.ok(readFileSync(await (await saved).path(), 'latin1').startsWith('PAR1'));
  await page.getByLabel('Time zone').fill('');
  await fill(page, { 'Time zone': 'Atlantis' });
  await page.getByText('must be the IANA name of a time zone').first().waitFor();
});

test('a webhook is made, tested, told again, changed, rotated, disabled and deleted', async () => {
  const { page } = await own.open('webhooks');
  await press(page, 'New webhook');
  await fill(page, { URL: 'http://example.com' });
  await page
    .getByRole('alert')
    .getByText(/Events/)
    .waitFor();
  await page.getByText('Choose at least one.').waitFor();
  await page.getByLabel('URL').fill('https://hooks.example.com/in');
  await tick(page, 'key.created');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'The new webhook' }).waitFor();
  await pressClose(page);
  await press(page, 'https://hooks.example.com/in');
  await page.getByRole('heading', { level: 1, name: 'hooks.example.com' }).waitFor();
  await press(page, 'Send a test');
  await inTable(page, 'Deliveries', 'webhook.test');
  // Nothing delivers here: what became of it is written as the program for webhooks writes it.
  await own.world.sql`update webhook_deliveries set state = 'DELIVERED', ended_at = now() where state = 'WAITING'`;
  await rowOf(page, 'Deliveries', 'webhook.test').getByText('Delivered').waitFor();
  await press(page, 'Refresh');
  await press(page, 'webhook.test');
  await page.getByRole('dialog', { name: 'webhook.test' }).getByText('This is a test.').waitFor();
  await press(page, 'Deliver again');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await press(page, 'Edit');
  await tick(page, 'key.rotated');
  await page.keyboard.press('Enter');
  await page.getByText('key.created, key.rotated').waitFor();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await press(page, 'Rotate secret');
  await page.getByRole('dialog', { name: 'Rotate the secret' }).waitFor();
  await press(page, 'Rotate');
  await page.getByRole('dialog', { name: 'The new secret' }).waitFor();
  await pressClose(page);
  await press(page, 'Disable');
  await page.getByText('Disabled', { exact: true }).waitFor();
  await press(page, 'Enable');
  await page.getByText('Active', { exact: true }).waitFor();
  await confirm(page, 'Delete', 'Delete for good');
  await page.getByText('No webhook yet.').waitFor();
});

test('scopes and tokens are made, changed and ended; a token has the rights that were ticked', async () => {
  const { page } = await own.open('scopes');
  await answer(page, 'New scope', 'New scope', { Representation: 'invoices', Name: 'Invoices' });
  await inTable(page, 'Scopes', 'invoices');
  await answer(page, 'Edit invoices', 'Edit the scope', { Name: 'Bills' });
  await inTable(page, 'Scopes', 'Bills');
  await confirm(page, 'Delete invoices', 'Delete for good');
  await page.getByText('No scope yet.').waitFor();

  await press(page, 'Tokens');
  await press(page, 'New token');
  await type(page, 'Name', 'typed');
  await tick(page, 'key:read');
  await page.keyboard.press('Enter');
  const made = page.getByRole('dialog', { name: 'The new token' });
  const token = await made.getByLabel('Access token').inputValue();
  await pressClose(page);
  const ask = async (path: string) =>
    (await own.world.call('get', `/api/v1/workspace/${own.workspaceId}/${path}`, undefined, { token })).status;
  assert.equal([await ask('api-keys'), await ask('scopes')], [200, 403]);
  await confirm(page, 'Revoke typed', 'Revoke for good');
  await rowOf(page, 'Access tokens', 'typed').getByText('Revoked').waitFor();
  await eventually('it is refused', async () => (await ask('api-keys')) === 401);
});

test('a workspace is made, chosen, changed, limited and deleted, once its name is typed', async () => {
  const { page } = await own.open('settings');
  await inTable(page, 'Quota of the team', 'keys');
  await page
    .getByText(/^Signed in until \d+ \w+( \d{4})?, \d\d:\d\d:\d\d\. The token may: .*workspace:write/)
    .waitFor();
  await press(page, 'keytally');
  await answer(page, 'New workspace', 'New workspace', { Name: 'Short' });
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await press(page, 'Settings');
  await answer(page, 'Edit', 'Edit the workspace', { 'Time zone': 'Europe/Oslo' });
  await page.getByText('Europe/Oslo').waitFor();
  await answer(page, 'New limit', 'New limit', { Name: 'daily', 'At most': '10' });
  await inTable(page, 'Default limits of keys', 'daily');
  await press(page, 'Delete the workspace');
  await fill(page, { 'Type Short to delete it': 'Shor' });
  await page.getByRole('alert').getByText('That is not its name.').waitFor();
  await fill(page, { 'Type Short to delete it': 't' });
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await rowOf(page, 'Workspaces', 'Short').waitFor({ state: 'detached' });
});
