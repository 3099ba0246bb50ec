import type { Page } from 'playwright-core';
import * as assert from 'uvu/assert';
import { must } from '../../helpers/customers.ts';
import { eventually, outputListeners } from '../../helpers/world.ts';
import { inTable, visit } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';

// What whoever sits at the browser later can find of console and portal: nothing.

const { test, own } = await consoleSuite('secrets in the browser');
let logs = '';
const listen = (text: string) => void (logs += text);
outputListeners.add(listen);
test.after(() => void outputListeners.delete(listen));

test('no secret is kept: not in the address, the history, the storage of the browser or the logs', async () => {
  await own.customers.newMeter({ externalMeterId: 'linked' });
  await own.customers.newKey({ name: 'Northwind backend', customerId: 'cus_linked' });
  const { page, close } = await own.open(`customers/${(await own.customers.billing('linked')).id}`);
  await page.getByRole('button', { name: 'Portal link' }).click();
  await page.getByLabel('Customer', { exact: true }).fill('cus_linked');
  await page.getByLabel('The customer may rotate their own keys').check();
  const [, link = ''] = (await shownOnce(page, 'Portal link', 'Make the link')).split('#');
  assert.match(link, /^lt_/);
  await page.goto(`${own.world.api.url}/console/w/${own.workspaceId}/keys`);
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Secret');
  const secret = await shownOnce(page, 'Secret of the key', 'Create key');
  await requireForgotten(page, [own.world.team.token, secret, link]);
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'linked' }).waitFor();
  for (const one of [secret, link]) assert.not.ok((await page.content()).includes(one));
  await close();

  const { page: portal, close: leave } = await visit(own.browser);
  const asked: string[] = [];
  portal.on('request', (one) => asked.push(one.url(), one.postData() ?? '', one.headers()['referer'] ?? ''));
  await portal.goto(`${own.world.api.url}/portal#${link}`);
  await portal.getByRole('button', { name: 'Rotate Northwind backend' }).click();
  await requireForgotten(portal, [link, await shownOnce(portal, 'Secret of the key', 'Rotate key')]);
  assert.not.ok(asked.join('\n').includes(link), 'it goes in a header alone');
  await portal.goto(`${own.world.api.url}/docs`);
  await portal.goBack();
  await inTable(portal, 'Keys', 'Northwind backend');
  assert.is(portal.url(), `${own.world.api.url}/portal`);
  // Its path has the token.
  await must(200, own.world.call('delete', `/api/v1/link-token/${link}`));
  await eventually('it is logged', async () => logs.includes('/api/v1/link-token/'));
  assert.not.ok(logs.includes(link));
  await leave();
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
  assert.match(logs, '/api/v1/');
  for (const one of [...secrets, cookie!.value]) assert.equal([kept.includes(one), logs.includes(one)], [false, false]);
}
