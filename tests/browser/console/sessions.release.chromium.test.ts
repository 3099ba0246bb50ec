import type { Page, Route } from 'playwright-core';
import * as assert from 'uvu/assert';
import { eventually, hearOutput, must } from '../../helpers/world.ts';
import { inTable, settled, visit } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';

// What a session may, what becomes of it where an answer is lost, and what is left of it: no secret.

const { test, own } = await consoleSuite('sessions of the console');
const logs = hearOutput();

const away = (route: Route) => route.abort('connectionreset');
// The server does what it was asked, and its answer is lost.
const unanswered = async (route: Route) => {
  await route.fetch();
  await route.abort('connectionreset');
};

test('a new secret stays until its dialog is closed, also where its page can not be read again, and is selected where there is no clipboard', async () => {
  const { id } = await own.customers.newKey({ name: 'Backend' });
  const { page } = await own.open(`keys/${id}`);
  await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`);
  await page.getByRole('button', { name: 'Rotate' }).click();
  await page.route(`**/api-key/${id}`, away);
  await page.getByLabel('Keep the old secret').selectOption('an hour');
  await page.getByRole('button', { name: 'Rotate key' }).click();
  await page.getByText('cannot be reached').waitFor();
  const made = page.getByRole('dialog', { name: 'The new secret' });
  const secret = await made.getByLabel('Secret of the key').inputValue();
  assert.is((await own.customers.verify({ key: secret })).body.status, 'VALID');
  assert.is(await page.evaluate('document.activeElement.ariaLabel'), 'Secret of the key', 'a screen reader tells it');
  await made.getByRole('button', { name: 'Copy' }).click();
  await made.getByRole('status').getByText('copy it by hand').waitFor();
  assert.is(await page.evaluate('String(getSelection())'), secret);
  await made.getByRole('button', { name: 'Close' }).click();
  await page.unroute(`**/api-key/${id}`);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('cannot be reached').waitFor({ state: 'detached' });
});

test('a new secret is not lost to Escape while it is made, nor to a session that ends before its credits are added', async () => {
  const { page } = await own.open('keys');
  let made = () => {};
  const asked = new Promise<void>((resolve) => void (made = resolve));
  await page.route('**/api/v1/api-key', async (route) => {
    await asked;
    await route.continue();
  });
  const ended = { error: { code: 40103, message: 'The session has ended; sign in again.' } };
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Slowly');
  await page.getByLabel('Customer', { exact: true }).fill('cus_slowly');
  const refuse = (route: Route) => route.fulfill({ status: 401, json: ended });
  await page.route('**/customer-billing*', refuse);
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  assert.ok(await page.getByRole('button', { name: 'Close' }).isDisabled());
  await page.route('**/api-keys?*', refuse);
  made();
  const dialog = page.getByRole('dialog', { name: 'The new key' });
  const secret = await dialog.getByLabel('Secret of the key').inputValue();
  assert.is((await own.customers.verify({ key: secret })).body.status, 'VALID');
  await dialog.getByText('The session has ended').waitFor();
  await settled(page);
  assert.is(await dialog.getByLabel('Secret of the key').inputValue(), secret);
  await page.context().clearCookies();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.getByLabel('Access token').waitFor();
});

test('a refill whose answer was lost shows when its form is closed, and the next one of the same amount is another', async () => {
  const { page } = await own.open(`customers/${await newRecord('lost answers')}`);
  await page.getByText('100 credits available').waitFor();
  await page.route('**/refill', unanswered, { times: 1 });
  const refill = async () => {
    await page.getByRole('button', { name: 'Add credits' }).click();
    await page.getByRole('dialog').getByLabel('Credits').fill('7');
    await page.getByRole('dialog').getByRole('button', { name: 'Add credits' }).click();
  };
  await refill();
  await page.getByRole('dialog').getByText('cannot be reached').waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('107 credits available').waitFor();
  await refill();
  await page.getByText('114 credits available').waitFor();
});

test('who could not be signed out is told so, and is signed in still', async () => {
  const { page } = await own.open('keys');
  await page.route('**/console/session', away);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('alert').getByText('cannot be reached').waitFor();
  // As a proxy answers that has no server behind it.
  await page.route('**/console/session', (route) => route.fulfill({ status: 502, body: '<h1>Bad Gateway</h1>' }));
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('alert').getByText("keytally can't be reached right now; try again.").waitFor();
  await page.unroute('**/console/session');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
});

test('an address that can not be decoded leads to the choice of a workspace', async () => {
  const { page } = await own.open('keys');
  await page.goto(`${own.world.api.url}/console/w/%E0%A4%A/keys`);
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
});

test("a token of some rights in some workspaces is not offered what is the team's, nor asks for what it may not read", async () => {
  const { world, workspaceId } = own;
  const token = await world.newToken(world.team.id, ['workspace:read', 'workspace:write', 'key:read'], [workspaceId]);
  const { page } = await own.open('settings', token);
  const refused: string[] = [];
  page.on('response', (response) => void (response.status() >= 400 && refused.push(response.url())));
  const menu = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
  await menu.first().waitFor();
  assert.equal(await menu.allInnerTexts(), ['Overview', 'Keys', 'Scopes', 'Settings']);
  await menu.first().click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await settled(page);
  assert.equal(refused, []);
  await page.goto(`${world.api.url}/console`);
  await page.getByRole('link', { name: 'Weather' }).waitFor();
  assert.is(await page.getByRole('button', { name: 'New workspace' }).count(), 0);
});

test('the page of a session whose token was revoked asks to sign in, and shows nothing more', async () => {
  const body = { name: 'leaver', permissions: ['workspace:read', 'key:read'] };
  const { accessToken } = (await must(201, own.world.call('post', '/api/v1/access-token', body))).body;
  const { page } = await own.open('keys', accessToken.token);
  await must(200, own.world.call('delete', `/api/v1/access-token/${accessToken.id}`));
  const session = `${own.world.api.url}/console/session`;
  await eventually('the session ends', async () => {
    return (await page.request.get(session, { headers: { 'X-Keytally-Session': '1' } })).status() === 401;
  });
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByLabel('Access token').waitFor();
  assert.is(await page.getByRole('navigation', { name: 'Pages' }).count(), 0);
});

test('no secret is kept: not in the address, the history, the storage of the browser or the logs', async () => {
  await own.customers.newMeter({ externalMeterId: 'linked' });
  await own.customers.newKey({ name: 'Northwind backend', customerId: 'cus_linked' });
  const { page } = await own.open(`customers/${(await own.customers.billing('linked')).id}`);
  await page.getByRole('button', { name: 'Portal link' }).click();
  await page.getByLabel('Customer', { exact: true }).fill('cus_linked');
  await page.getByLabel('The customer may rotate their own keys').check();
  const [, link = ''] = (await shownOnce(page, 'Portal link', 'Make the link')).split('#');
  assert.match(link, /^lt_/);
  await page.goto(`${own.world.api.url}/console/w/${own.workspaceId}/keys`);
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Secret');
  const secret = await shownOnce(page, 'Secret of the key', 'Create key');
  await requireForgotten(page, [own.world.team.token, secret, link]);
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'linked' }).waitFor();
  for (const one of [secret, link]) assert.not.ok((await page.content()).includes(one));

  const { page: portal } = await visit(own.browser);
  const asked: string[] = [];
  portal.on('request', (one) => asked.push(one.url(), one.postData() ?? '', one.headers()['referer'] ?? ''));
  await portal.goto(`${own.world.api.url}/portal#${link}`);
  await portal.getByRole('button', { name: 'Rotate Northwind backend' }).click();
  await portal.getByLabel('Keep the old secret').selectOption('a day');
  await requireForgotten(portal, [link, await shownOnce(portal, 'Secret of the key', 'Rotate key')]);
  assert.not.ok(asked.join('\n').includes(link), 'it goes in a header alone');
  await portal.goto(`${own.world.api.url}/docs`);
  await portal.goBack();
  await inTable(portal, 'Keys', 'Northwind backend');
  assert.is(portal.url(), `${own.world.api.url}/portal`);
  // Its path has the token.
  await must(200, own.world.call('delete', `/api/v1/link-token/${link}`));
  await eventually('it is logged', async () => logs().includes('/api/v1/link-token/'));
  assert.not.ok(logs().includes(link));
});

/** Sends the dialog, closes what it shows, and gives the secret that was there. */
async function shownOnce(page: Page, label: string, submit: string): Promise<string> {
  await page.getByRole('dialog').getByRole('button', { name: submit }).click();
  const field = page.getByLabel(label, { exact: true });
  const secret = await field.inputValue();
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  // A closed dialog has no role any more, a moment before it is gone.
  await field.waitFor({ state: 'detached' });
  return secret;
}

/** Fails where one of these, or the session's cookie, is anywhere that a script, a later page or a reader of logs can see. */
async function requireForgotten(page: Page, secrets: string[]): Promise<void> {
  const [cookie] = await page.context().cookies();
  assert.equal([cookie!.httpOnly, cookie!.sameSite], [true, 'Strict']);
  const kept = await page.evaluate<string>(`(async () => JSON.stringify([
    location.href, document.cookie, document.referrer, { ...localStorage }, { ...sessionStorage }, history.state,
    await indexedDB.databases(), await caches.keys(), performance.getEntriesByType('resource').map(({ name }) => name),
    document.documentElement.outerHTML, [...document.querySelectorAll('input')].map(({ value }) => value),
  ]))()`);
  assert.match(logs(), '/api/v1/');
  for (const one of [...secrets, cookie!.value])
    assert.equal([kept.includes(one), logs().includes(one)], [false, false]);
}

async function newRecord(externalMeterId: string): Promise<string> {
  await own.customers.newMeter({ externalMeterId, totalCredits: '100' });
  return (await own.customers.billing(externalMeterId)).id;
}
