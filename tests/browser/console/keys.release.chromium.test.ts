import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, type Customers } from '../../helpers/customers.ts';
import { makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, rowOf, settled, signedIn, signIn, visit } from './helpers/browser.ts';

// The tasks of the page of keys, as a person does them.

let world: World;
let browser: Browser;
let workspaceId: string;
let customers: Customers;
const test = suite('keys in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify']), launch()]);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Weather' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

const statusOf = async (key: string) => (await customers.verify({ key })).body.status as string;

test('a wrong access token is refused with what the api says, and a valid one signs in and out', async () => {
  const { page, close } = await visit(browser);
  await page.goto(`${world.api.url}/console`);
  await page.getByLabel('Access token').fill('kt_nonsense');
  await page.getByRole('button', { name: 'Sign in' }).click();
  const told = page.getByRole('alert');
  await told.getByText('The access token is unknown, expired or revoked; use a valid one.').waitFor();
  assert.match(await told.innerText(), /Request \S+/);
  await signIn(page, world.api.url, world.team.token);
  await page.getByRole('link', { name: 'Weather' }).click();
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
  await page.reload();
  await page.getByLabel('Access token').waitFor();
  await close();
});

test('a key is made: its secret is shown once, copied with one click, and verifies', async () => {
  const { page, close } = await open('keys', 'Keys');
  await page.getByText('No key yet.').waitFor();
  await page.getByRole('button', { name: 'New key' }).click();
  const form = page.getByRole('dialog', { name: 'New key' });
  await form.getByLabel('Name').fill('Backend');
  await form.getByLabel('Customer').fill('acme');
  await form.getByLabel('Prefix').fill('wx');
  await form.getByRole('button', { name: 'Create key' }).click();
  const shown = page.getByRole('dialog', { name: 'The new key' });
  const secret = await shown.getByLabel('Secret of the key').inputValue();
  await shown.getByRole('button', { name: 'Copy' }).click();
  await shown.getByText('Copied').waitFor();
  assert.is(await page.evaluate<string>('navigator.clipboard.readText()'), secret);
  assert.match(secret, /^wx_/);
  assert.is(await statusOf(secret), 'VALID');
  await shown.getByRole('button', { name: 'Close' }).click();
  await inTable(page, 'Keys', 'Backend');
  assert.not.ok((await page.content()).includes(secret));
  await close();
});

test('a key is found by its name, its customer and its masked text', async () => {
  const key = await customers.newKey({ name: 'Harbour office', customerId: 'cus_harbour' });
  const { maskedKey } = (await world.call('get', `/api/v1/workspace/${workspaceId}/api-key/${key.id}`)).body.apiKey;
  await customers.newKey({ name: 'Other' });
  const { page, close } = await open('keys', 'Keys');
  for (const text of ['hARBOUR of', 'cus_harb', maskedKey.slice(-4)]) {
    await page.getByLabel('Find keys').fill('');
    await inTable(page, 'Keys', 'Other');
    await page.getByLabel('Find keys').fill(text);
    await rowOf(page, 'Keys', 'Other').waitFor({ state: 'detached' });
    await inTable(page, 'Keys', 'Harbour office');
  }
  await page.getByLabel('Find keys').fill('nothing has this');
  await page.getByText('No key has this').waitFor();
  await close();
});

test('a key is disabled and enabled, renamed and limited, and is refused at once where it should be', async () => {
  const { id, key } = await customers.newKey({ name: 'Trial' });
  const { page, close } = await open(`keys/${id}`, 'Trial');
  await page.getByRole('button', { name: 'Disable' }).click();
  await page.getByRole('button', { name: 'Enable' }).waitFor();
  assert.is(await statusOf(key), 'DISABLED');
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByRole('button', { name: 'Disable' }).waitFor();
  assert.is(await statusOf(key), 'VALID');

  await page.getByRole('button', { name: 'Change limits' }).click();
  const limits = page.getByRole('dialog', { name: 'Limits of the key' });
  await limits.getByRole('button', { name: 'Add a limit' }).click();
  await limits.getByLabel('Name').fill('daily');
  await limits.getByLabel('At most').fill('2');
  await limits.getByLabel('Per').selectOption('day');
  await limits.getByRole('button', { name: 'Add a limit' }).click();
  await limits.getByLabel('Name').last().fill('monthly');
  await limits.getByLabel('At most').last().fill('1000');
  await limits.getByRole('button', { name: 'Add a limit' }).click();
  await limits.getByRole('button', { name: 'Remove limit 3' }).click();
  await limits.getByLabel('Per').last().selectOption('month');
  await limits.getByRole('button', { name: 'Save limits' }).click();
  await inTable(page, 'Limits', 'daily');
  await inTable(page, 'Limits', 'monthly');
  assert.equal([await statusOf(key), await statusOf(key), await statusOf(key)], ['VALID', 'VALID', 'RATE_LIMITED']);

  await page.getByRole('button', { name: 'Edit' }).click();
  const edit = page.getByRole('dialog', { name: 'Edit the key' });
  await edit.getByLabel('Name').fill('Trial, renamed');
  await edit.getByLabel('Addresses').fill('not an address');
  await edit.getByRole('button', { name: 'Save' }).click();
  await edit.getByRole('alert').getByText('/allowedIPs/0', { exact: true }).waitFor();
  await edit.getByLabel('Addresses').fill('203.0.113.0/24');
  await edit.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: 'Trial, renamed' }).waitFor();
  assert.is((await customers.verify({ key })).body.reason, 'IP_NOT_ALLOWED');
  await close();
});

test('a key is given scopes', async () => {
  await world.call('post', `/api/v1/workspace/${workspaceId}/scope`, { name: 'Invoices', representation: 'invoices' });
  const { id, key } = await customers.newKey({ name: 'Scoped' });
  const reads = async () =>
    (await customers.verify({ key, requestedScopes: [{ representation: 'invoices', read: true }] })).body.status;
  assert.is(await reads(), 'INVALID_SCOPES');
  const { page, close } = await open(`keys/${id}`, 'Scoped');
  await page.getByLabel('read invoices').check();
  // What was ticked stays while something else is looked at.
  await page.getByRole('button', { name: 'Rotate' }).click();
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Save scopes' }).click();
  await page.getByRole('button', { name: 'Save scopes', disabled: false }).waitFor();
  await page.reload();
  assert.is(await page.getByLabel('read invoices').isChecked(), true);
  assert.is(await reads(), 'VALID');
  await close();
});

test('a key is rotated with a time of grace, and deleted for good', async () => {
  const { id, key } = await customers.newKey({ name: 'To rotate' });
  const { page, close } = await open(`keys/${id}`, 'To rotate');
  await page.getByRole('button', { name: 'Rotate' }).click();
  const form = page.getByRole('dialog', { name: 'Rotate the key' });
  await form.getByLabel('Hours of grace').fill('1');
  await form.getByRole('button', { name: 'Rotate key' }).click();
  const shown = page.getByRole('dialog', { name: 'The new secret' });
  const secret = await shown.getByLabel('Secret of the key').inputValue();
  assert.is.not(secret, key);
  assert.equal([await statusOf(secret), await statusOf(key)], ['VALID', 'VALID']);
  await page.keyboard.press('Escape');
  await shown.waitFor({ state: 'detached' });

  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog', { name: 'Delete the key' }).getByRole('button', { name: 'Delete for good' }).click();
  await page.getByText('Deleted', { exact: true }).waitFor();
  assert.is(await page.getByRole('button', { name: 'Rotate' }).count(), 0, 'nothing is left to do with it');
  assert.is.not(await statusOf(secret), 'VALID');
  await close();
});

test('a token that only reads is offered nothing that changes anything, on any page', async () => {
  const permissions = ['workspace', 'key', 'billing', 'usage', 'webhook', 'audit', 'link'].map((one) => `${one}:read`);
  const { accessToken } = (await world.call('post', '/api/v1/access-token', { name: 'reader', permissions })).body;
  await customers.newMeter({ externalMeterId: 'read', totalCredits: '5' });
  const { id: billingId } = await customers.billing('read');
  const { id } = await customers.newKey({ name: 'To read', externalMeterId: 'read' });
  const target = { url: 'https://hooks.example.com/in', events: ['key.created'], workspaceId };
  const { webhook } = (await world.call('post', '/api/v1/webhook', target)).body;
  const { page, close } = await visit(browser);
  await signIn(page, world.api.url, accessToken.token);
  const reads = /^(Sign out|Find|Show|Look again|Prove the books|Download .*|(POST|PATCH|DELETE) \/.*)$/;
  for (const [path, shown] of [
    ['overview', 'Customers with the least left'],
    ['keys', 'To read'],
    [`keys/${id}`, 'Recent decisions'],
    ['customers', 'read'],
    [`customers/${billingId}`, 'Nothing was used.'],
    ['usage', 'Nothing was used in this time.'],
    ['why', 'Key or customer'],
    ['scopes', 'Scopes'],
    ['webhooks', target.url],
    [`webhooks/${webhook.id}`, 'Nothing was told'],
    ['audit-log', 'POST /api-key'],
    ['settings', 'Quota of the team'],
  ] as const) {
    await page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
    await page.getByText(shown).first().waitFor();
    await settled(page);
    const offered = await page.getByRole('button').allInnerTexts();
    assert.equal(
      offered.filter((one) => !reads.test(one)),
      [],
      path,
    );
  }
  assert.is(await page.getByRole('link', { name: 'Tokens' }).count(), 0);
  await close();
});

test('what the token may not do is not offered', async () => {
  const token = await world.newToken(world.team.id, ['workspace:read', 'key:read'], [workspaceId]);
  const { id } = await customers.newKey({ name: 'To look at' });
  const { page, close } = await visit(browser);
  await signIn(page, world.api.url, token);
  assert.is(await page.getByRole('button', { name: 'New workspace' }).count(), 0);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/keys/${id}`);
  await page.getByRole('heading', { level: 1, name: 'To look at' }).waitFor();
  await page.getByLabel('read invoices').waitFor();
  assert.is(await page.getByLabel('read invoices').isDisabled(), true);
  const menu = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
  assert.equal(await menu.allInnerTexts(), ['Overview', 'Keys', 'Scopes', 'Settings']);
  const buttons = await page.getByRole('button').allInnerTexts();
  assert.equal(buttons, ['Sign out']);
  await close();
});

test.run();

async function open(path: string, heading: string): Promise<{ page: Page; close(): Promise<void> }> {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
  await page.getByRole('heading', { level: 1, name: heading, exact: true }).waitFor();
  return { page, close };
}
