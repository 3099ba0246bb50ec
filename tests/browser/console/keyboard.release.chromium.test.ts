import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../helpers/customers.ts';
import { makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, rowOf, signedIn, visit } from './helpers/browser.ts';
import { answer, confirm, fill, focused, press, pressClose, tabTo, tick, type } from './helpers/keyboard.ts';

// Every task of the pages of keys and customers goes by keyboard alone.

let world: World;
let browser: Browser;
let workspaceId: string;
const test = suite('keys and customers by keyboard');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Weather' }))).body.workspace.id;
  const scope = { name: 'Invoices', representation: 'invoices' };
  await must(201, world.call('post', `/api/v1/workspace/${workspaceId}/scope`, scope));
  await makeCustomers(world, workspaceId).newKey({ name: 'Another' });
  await makeCustomers(world, workspaceId).newMeter({ externalMeterId: 'another' });
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('signing in, making and choosing a workspace, and signing out go by keyboard alone', async () => {
  const { page, close } = await visit(browser);
  await page.goto(`${world.api.url}/console`);
  await type(page, 'Access token', world.team.token);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await answer(page, 'New workspace', 'New workspace', { Name: 'Made by keyboard' });
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await press(page, 'Made by keyboard');
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await press(page, 'Weather');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await press(page, 'All usage');
  await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
  await press(page, 'Sign out');
  await page.getByLabel('Access token').waitFor();
  await close();
});

test('a key is made, copied, found, edited, limited, granted scopes, looked at, rotated, disabled and deleted by keyboard alone', async () => {
  const { page, close } = await open('keys');
  await answer(page, 'New key', 'New key', { Name: 'By keyboard', Customer: 'cus_keyboard', Prefix: 'kb' });
  const made = page.getByRole('dialog', { name: 'The new key' });
  await made.waitFor();
  await press(page, 'Copy');
  await made.getByText('Copied').waitFor();
  await page.keyboard.press('Escape');
  await made.waitFor({ state: 'detached' });
  await type(page, 'Find keys', 'by KEY');
  await rowOf(page, 'Keys', 'Another').waitFor({ state: 'detached' });
  await press(page, 'By keyboard');
  await page.getByRole('heading', { level: 1, name: 'By keyboard' }).waitFor();

  await answer(page, 'Edit', 'Edit the key', { Name: 'Typed', 'Requests per second': '5' });
  await page.getByRole('heading', { level: 1, name: 'Typed' }).waitFor();
  await press(page, 'Change limits');
  await press(page, 'Add a limit');
  await fill(page, { Per: 'hour', Name: 'hourly', 'At most': '10' });
  assert.match(await rowIn(page, 'Limits', 'hourly'), /10\s+requests\s+hour/);
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await tick(page, 'read invoices');
  await press(page, 'Save scopes');
  await page.getByRole('button', { name: 'Save scopes', disabled: false }).waitFor();
  await page.reload();
  await page.getByLabel('read invoices').waitFor();
  assert.is(await page.getByLabel('read invoices').isChecked(), true);
  await type(page, 'Time', 'Last hour');
  assert.is(await page.getByLabel('Time', { exact: true }).inputValue(), 'hour');

  await answer(page, 'Rotate', 'Rotate the key', { 'Hours of grace': '1' });
  await page.getByRole('dialog', { name: 'The new secret' }).waitFor();
  await pressClose(page);
  await press(page, 'Disable');
  await page.getByRole('button', { name: 'Enable' }).waitFor();
  await press(page, 'Enable');
  await page.getByRole('button', { name: 'Disable' }).waitFor();
  await confirm(page, 'Delete', 'Delete for good');
  await page.getByText('Deleted', { exact: true }).waitFor();
  await close();
});

test('a record is made, found, refilled, granted credits once and by a schedule, and may be overdrawn, by keyboard alone', async () => {
  const { page, close } = await open('customers');
  await answer(page, 'New record', 'New billing record', { Meter: 'keyboard', 'First credits': '5' });
  await page.getByRole('heading', { level: 1, name: 'keyboard' }).waitFor();
  await press(page, 'Customers');
  await fill(page, { Meter: 'keyboard' });
  await rowOf(page, 'Billing records', 'another').waitFor({ state: 'detached' });
  await press(page, 'keyboard');
  await page.getByText('5 credits available').waitFor();

  await answer(page, 'Refill', 'Refill', { Credits: '2' });
  await page.getByText('7 credits available').waitFor();
  await answer(page, 'Grant credits', 'Grant credits', { Credits: '25', Name: 'trial', Priority: '10' });
  await page.getByText('32 credits available').waitFor();
  await answer(page, 'Void trial', 'Void the grant', { Reason: 'ended early' });
  await page.getByText('7 credits available').waitFor();
  const monthly = { Credits: '3', Every: 'month', 'Time zone': 'Europe/Oslo', Name: 'included' };
  await answer(page, 'New schedule', 'New schedule', monthly);
  await inTable(page, 'Grant schedules', 'month, Europe/Oslo');
  await page.getByText('10 credits available').waitFor();
  await confirm(page, 'Delete the schedule included', 'Delete for good');
  await page.getByText('No schedule.').waitFor();
  await press(page, 'Overage and cap');
  await tick(page, 'May go on when the credits are used up');
  await fill(page, { 'Spend cap': '100' });
  await page.getByText('calls go on').waitFor();
  await close();
});

test('a record is limited and watched, its files and its month are read, its books proved, and a portal link made, by keyboard alone', async () => {
  const customers = makeCustomers(world, workspaceId);
  await customers.newMeter({ externalMeterId: 'watched', totalCredits: '9' });
  const { page, close } = await open(`customers/${(await customers.billing('watched')).id}`);
  await press(page, 'Change limits');
  await press(page, 'Add a limit');
  await fill(page, { Name: 'daily', 'At most': '10' });
  await inTable(page, 'Limits', 'daily');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await answer(page, 'New alert', 'New alert', { Name: 'low', Watches: 'the credits', From: '3' });
  await inTable(page, 'Alerts', 'when 3 credits are left, or fewer');
  await press(page, 'Remove low');
  await page.getByText('None of its own').waitFor();

  for (const [button, file] of [
    ['Download CSV', /^usage-.*\.csv$/],
    ['Download the statement', /^statement-.*\.csv$/],
  ] as const) {
    const saved = page.waitForEvent('download');
    await press(page, button);
    assert.match((await saved).suggestedFilename(), file);
  }
  await inTable(page, 'Movements', 'Granted');
  await tabTo(page, 'Month');
  // The month has the focus, then the year.
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  await page.getByText('Nothing moved in this month.').waitFor();
  await press(page, 'Prove the books');
  await page.getByText('Exact: the books have all that was used, and no more').waitFor();

  await answer(page, 'Portal link', 'New portal link', { 'Open for': 'a day', Customer: 'cus_keyboard' });
  await page.getByRole('dialog', { name: 'The new portal link' }).waitFor();
  await press(page, 'Revoke the link');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await close();
});

test('a dialog begins at its first field and gives the focus back, and the first stop of a page skips to its content', async () => {
  const { page, close } = await open('keys');
  await page.keyboard.press('Tab');
  assert.is(await focused(page), 'Skip to the page');
  await press(page, 'New key');
  await page.getByRole('dialog').waitFor();
  assert.is(await focused(page), 'Name');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.is(await focused(page), 'New key');
  await close();
});

test.run();

async function rowIn(page: Page, table: string, text: string): Promise<string> {
  await inTable(page, table, text);
  return rowOf(page, table, text).innerText();
}

async function open(path: string): Promise<{ page: Page; close(): Promise<void> }> {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
  return { page, close };
}
