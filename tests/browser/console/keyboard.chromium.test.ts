import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../helpers/customers.ts';
import { makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, signedIn, visit } from './helpers/browser.ts';

// Everything goes by keyboard alone, and long lists stay quick.

const MANY = 10_000;
let world: World;
let browser: Browser;
let workspaceId: string;
const test = suite('keyboard and long lists in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify']), launch()]);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Weather' })).body.workspace.id;
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('signing in, making a key, rotating, disabling and deleting it, and signing out go by keyboard alone', async () => {
  const { page, close } = await visit(browser);
  await page.goto(`${world.api.url}/console`);
  await tabTo(page, 'Access token');
  await page.keyboard.type(world.team.token);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await press(page, 'Weather');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await press(page, 'Keys');
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
  await press(page, 'New key');
  await tabTo(page, 'Name');
  await page.keyboard.type('By keyboard');
  await page.keyboard.press('Enter');
  const made = page.getByRole('dialog', { name: 'The new key' });
  await made.waitFor();
  await page.keyboard.press('Escape');
  await made.waitFor({ state: 'detached' });
  await inTable(page, 'Keys', 'By keyboard');
  await press(page, 'By keyboard');
  await page.getByRole('heading', { level: 1, name: 'By keyboard' }).waitFor();

  await press(page, 'Rotate');
  await page.getByRole('dialog', { name: 'Rotate the key' }).waitFor();
  await press(page, 'Rotate key');
  await page.getByRole('dialog', { name: 'The new secret' }).waitFor();
  await pressClose(page);
  await press(page, 'Disable');
  await page.getByRole('button', { name: 'Enable' }).waitFor();
  await press(page, 'Delete');
  await press(page, 'Delete for good');
  await page.getByText('Deleted', { exact: true }).waitFor();
  await press(page, 'Sign out');
  await page.getByLabel('Access token').waitFor();
  await close();
});

test('a record, its credits, a limit, a scope and a token are made by keyboard alone', async () => {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/customers`);
  await press(page, 'New record');
  await fill(page, { Meter: 'keyboard', 'First credits': '5' });
  await page.getByRole('heading', { level: 1, name: 'keyboard' }).waitFor();
  await press(page, 'Refill');
  await fill(page, { Credits: '2' });
  await page.getByText('7 credits available').waitFor();
  await press(page, 'Change limits');
  await press(page, 'Add a limit');
  await fill(page, { Name: 'daily', 'At most': '10' });
  await inTable(page, 'Limits', 'daily');
  await press(page, 'Portal link');
  await page.getByRole('dialog', { name: 'New portal link' }).waitFor();
  await fill(page, { Customer: 'cus_keyboard' });
  await page.getByRole('dialog', { name: 'The new portal link' }).waitFor();
  await press(page, 'Revoke the link');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await press(page, 'Scopes');
  await press(page, 'New scope');
  await fill(page, { Representation: 'invoices', Name: 'Invoices' });
  await inTable(page, 'Scopes', 'invoices');
  await press(page, 'Tokens');
  await press(page, 'New token');
  await tabTo(page, 'Name');
  await page.keyboard.type('typed');
  await tabTo(page, 'key:read');
  await page.keyboard.press('Space');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'The new token' }).waitFor();
  await pressClose(page);
  await press(page, 'Revoke typed');
  await press(page, 'Revoke for good');
  await page.getByText('Revoked', { exact: true }).waitFor();
  await close();
});

test('a webhook is made, rotated and deleted, usage asked for and a refusal looked up by keyboard alone', async () => {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/webhooks`);
  await press(page, 'New webhook');
  await tabTo(page, 'URL');
  await page.keyboard.type('https://hooks.example.com/in');
  await tabTo(page, 'key.created');
  await page.keyboard.press('Space');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'The new webhook' }).waitFor();
  await pressClose(page);
  await press(page, 'https://hooks.example.com/in');
  await page.getByRole('heading', { level: 1, name: 'hooks.example.com' }).waitFor();
  await press(page, 'Rotate secret');
  await page.getByRole('dialog', { name: 'Rotate the secret' }).waitFor();
  await press(page, 'Rotate');
  await page.getByRole('dialog', { name: 'The new secret' }).waitFor();
  await pressClose(page);
  await press(page, 'Send a test');
  await press(page, 'webhook.test');
  await page.getByRole('dialog', { name: 'webhook.test' }).waitFor();
  await pressClose(page);
  await press(page, 'Delete');
  await press(page, 'Delete for good');
  await page.getByText('No webhook yet.').waitFor();

  await press(page, 'Usage');
  await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
  await tabTo(page, 'Route');
  await page.keyboard.press('Space');
  await press(page, 'Show');
  await page.getByText('Nothing was used in this time.').waitFor();
  await press(page, 'Why refused?');
  await page.getByRole('heading', { level: 1, name: 'Why was this refused?' }).waitFor();
  await fill(page, { 'Key or customer': 'nobody' });
  await page.getByText('No key and no record fits.').waitFor();
  await close();
});

test('a closed dialog gives the focus back, and the first stop of a page skips to its content', async () => {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/keys`);
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
  await page.keyboard.press('Tab');
  assert.is(await focused(page), 'Skip to the page');
  await press(page, 'New key');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.is(await focused(page), 'New key');
  await close();
});

test('a table of 10,000 keys scrolls to its end with few rows in the page', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Large' }))).body;
  const { id } = await makeCustomers(world, workspace.id).newKey({ name: 'Key 0' });
  // Copies of a key, as the api stores them: making each by a request would take the test's time.
  await world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object(
      'id', 'key_' || lpad(i::text, 26, '0'), 'name', 'Key ' || i))).*
    from api_keys k, generate_series(1, ${MANY - 1}) i where k.id = ${id}`;
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspace.id}/keys`);
  await inTable(page, 'Keys', 'Key ');
  const most = await page.evaluate<number>(`new Promise((resolve) => {
    const region = document.querySelector('[role=region]');
    let most = 0;
    const step = () => {
      most = Math.max(most, document.querySelectorAll('tbody tr').length);
      const table = region.querySelector('table');
      const atEnd = region.scrollTop + region.clientHeight >= region.scrollHeight - 2;
      if (atEnd && table.getAttribute('aria-rowcount') !== '-1') resolve(most);
      else { region.scrollTop += 2_000; requestAnimationFrame(step); }
    };
    step();
  })`);
  assert.is(
    await page.getByRole('region', { name: 'Keys' }).getByRole('table').getAttribute('aria-rowcount'),
    String(MANY + 1),
  );
  assert.ok(most < 80, `${most} rows at once`);
  await close();
});

test.run();

const focused = (page: Page) =>
  page.evaluate<string>(
    `(() => { const at = document.activeElement; return (at?.labels?.[0]?.innerText ?? at?.getAttribute('aria-label') ?? at?.innerText ?? '').trim(); })()`,
  );

/** Presses Tab until the thing of this name has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  await page.getByText(name).or(page.getByLabel(name)).first().waitFor();
  for (let i = 0; i < 150; i++) {
    if ((await focused(page)) === name) return;
    await page.keyboard.press('Tab');
  }
  assert.unreachable(`Tab does not lead to ${name}`);
}

async function press(page: Page, name: string): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.press('Enter');
}

// A closed dialog gives the focus back, which must not happen between the next Tab and Enter.
async function pressClose(page: Page): Promise<void> {
  await press(page, 'Close');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
}

async function fill(page: Page, fields: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(fields)) {
    await tabTo(page, name);
    await page.keyboard.type(text);
  }
  await page.keyboard.press('Enter');
}
