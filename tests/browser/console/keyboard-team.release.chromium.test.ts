import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, rowOf, signedIn } from './helpers/browser.ts';
import { answer, confirm, fill, press, pressClose, tick, type } from './helpers/keyboard.ts';

// Every task of the pages of usage, refusals, webhooks, scopes, tokens, the audit log and settings goes by keyboard alone.

let world: World;
let browser: Browser;
let workspaceId: string;
let keyId: string;
const test = suite('the other pages by keyboard');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(), launch()]);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Weather' }))).body.workspace.id;
  keyId = (await makeCustomers(world, workspaceId).newKey({ name: 'Timetable' })).id;
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('a webhook is made, tested, told again, changed, rotated, disabled and deleted by keyboard alone', async () => {
  const { page, close } = await open('webhooks');
  await press(page, 'New webhook');
  await type(page, 'URL', 'https://hooks.example.com/in');
  await tick(page, 'key.created');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'The new webhook' }).waitFor();
  await pressClose(page);
  await press(page, 'https://hooks.example.com/in');
  await page.getByRole('heading', { level: 1, name: 'hooks.example.com' }).waitFor();
  await press(page, 'Send a test');
  await inTable(page, 'Deliveries', 'webhook.test');
  await press(page, 'Look again');
  await press(page, 'webhook.test');
  await page.getByRole('dialog', { name: 'webhook.test' }).waitFor();
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
  await page.getByText('Enabled', { exact: true }).waitFor();
  await confirm(page, 'Delete', 'Delete for good');
  await page.getByText('No webhook yet.').waitFor();
  await close();
});

test('usage is asked for in each way and downloaded, and a refusal is looked up, by keyboard alone', async () => {
  const { page, close } = await open('usage');
  const day = new Date(Date.now() - 60 * 86_400_000).toISOString().slice(0, 10);
  const [year, ...monthAndDay] = day.split('-');
  await type(page, 'From the day', [...monthAndDay, year].join(''));
  await type(page, 'By', 'month');
  await type(page, 'Time zone', 'Europe/Oslo');
  await tick(page, 'Route');
  await press(page, 'Only some of it');
  await fill(page, { 'Only the customer': 'south' });
  await page.getByText('Nothing was used in this time.').waitFor();
  for (const [button, name] of [
    ['Download CSV', 'usage.csv'],
    ['Download Parquet', 'usage.parquet'],
  ] as const) {
    const saved = page.waitForEvent('download');
    const asked = page.waitForRequest(/format=/);
    await press(page, button);
    assert.is((await saved).suggestedFilename(), name);
    const query = Object.fromEntries(new URL((await asked).url()).searchParams);
    const { from, interval, timezone, groupBy, customerId } = query;
    assert.equal(
      [from, interval, timezone, groupBy, customerId],
      [day, 'month', 'Europe/Oslo', 'billing,usageName,route', 'south'],
    );
  }
  await press(page, 'Why refused?');
  await fill(page, { 'Key or customer': 'nobody' });
  await page.getByText('No key and no record fits.').waitFor();
  // The field has the focus still: Tab alone would choose what it holds.
  await page.keyboard.press('Control+A');
  await fill(page, { 'Key or customer': 'timetable' });
  await press(page, 'Timetable');
  await page.getByRole('heading', { level: 1, name: 'Timetable' }).waitFor();
  await close();
});

test('scopes and tokens are made, changed and ended by keyboard alone', async () => {
  const { page, close } = await open('scopes');
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
  await page.getByRole('dialog', { name: 'The new token' }).waitFor();
  await pressClose(page);
  await confirm(page, 'Revoke typed', 'Revoke for good');
  await rowOf(page, 'Access tokens', 'typed').getByText('Revoked').waitFor();
  await close();
});

test('a line of the audit log is found and read, and a workspace is changed, limited and deleted, by keyboard alone', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Short' }))).body;
  const { page, close } = await open('audit-log');
  await fill(page, { 'From the day': '01312026', Outcome: 'changed', 'Id of what was changed': keyId });
  const rows = page.getByRole('region', { name: 'Audit log' }).getByRole('row');
  await eventually('its line stands alone', async () => (await rows.count()) === 2);
  await press(page, 'POST /api-key');
  await page.getByRole('dialog').getByText('"Timetable"').waitFor();
  await pressClose(page);

  await page.goto(`${world.api.url}/console/w/${workspace.id}/settings`);
  await answer(page, 'Edit', 'Edit the workspace', { 'Time zone': 'Europe/Oslo' });
  await page.getByText('Europe/Oslo').waitFor();
  await press(page, 'Change limits');
  await press(page, 'Add a limit');
  await fill(page, { Name: 'daily', 'At most': '10' });
  await inTable(page, 'Limits', 'daily');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await press(page, 'Change limits');
  await press(page, 'Remove limit 1');
  await press(page, 'Save limits');
  await page.getByText('No limit over a longer window.').waitFor();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await press(page, 'Delete the workspace');
  await fill(page, { 'Type Short to delete it': 'Short' });
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await rowOf(page, 'Workspaces', 'Short').waitFor({ state: 'detached' });
  await close();
});

test.run();

async function open(path: string): Promise<{ page: Page; close(): Promise<void> }> {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
  return { page, close };
}
