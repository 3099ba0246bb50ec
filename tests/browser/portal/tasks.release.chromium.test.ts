import type { Page } from 'playwright-core';
import * as assert from 'uvu/assert';
import { eventually, makeCustomers, must } from '../../helpers/world.ts';
import { inTable, requireAsPictured, requireInAllLooks, rowOf, visit } from '../console/helpers/browser.ts';
import { focused, press, tabTo, type } from '../console/helpers/keyboard.ts';
import { shownSuite } from '../console/helpers/suite.ts';

// What a customer does who has opened a link, by keyboard alone, in all looks.

const { test, own, shown } = await shownSuite('the portal in a browser');

test('a customer finds their own keys, balance by grant, usage by day and the statement, with a file of it', async () => {
  const { page, complaints } = await visit(own.browser);
  await go(page, await link({ billingId: shown.billingId }));
  await inTable(page, 'Keys', 'Northwind backend');
  // Of the month that most of the days before are in: on the first of one the statement is short, and not as pictured.
  const most = new Date(Date.now() - 15 * 86_400_000).toISOString().slice(0, 7);
  await page.goto(`${own.world.api.url}/portal?month=${most}`);
  await inTable(page, 'Movements', 'Correction: archive');
  assert.is(await rowOf(page, 'Keys', 'Harbour office').count(), 0, "no other customer's");
  assert.is(await page.getByRole('button', { name: /^Rotate/ }).count(), 0, 'the link does not permit it');
  await page.getByText('credits available').waitFor();
  await inTable(page, 'Credits', 'trial');
  await inTable(page, 'Usage by day', 'archive');
  await requireInAllLooks(page, 'portal');
  await requireAsPictured(page, 'portal/portal');
  await page.emulateMedia({ media: 'print' });
  // Nothing to press is printed.
  assert.is(await page.locator('button:not(.sort)').filter({ visible: true }).count(), 0);
  await page.emulateMedia({ media: 'screen' });
  await page.keyboard.press('Tab');
  assert.is(await focused(page), 'Skip to the page');
  await tabTo(page, 'Month');
  // The month has the focus, then the year.
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  await page.getByText('Nothing moved in this month.').waitFor();
  const saved = page.waitForEvent('download');
  await press(page, 'Download the statement');
  const month = await page.getByLabel('Month').inputValue();
  assert.is((await saved).suggestedFilename(), `statement-${month}-portal.csv`);
  assert.equal(complaints, []);
});

test('a customer rotates a key: the new secret is shown once and verifies; who has left sees nothing more', async () => {
  const { page } = await visit(own.browser);
  const { id } = await makeCustomers(own.world, shown.workspaceId).newKey({ name: 'Off', customerId: 'northwind' });
  const path = `/api/v1/workspace/${shown.workspaceId}/api-key/${id}`;
  await must(200, own.world.call('patch', path, { enabled: false }));
  await go(page, await link({ permissions: ['rotate'] }));
  await rowOf(page, 'Keys', 'Off').getByText('Disabled').waitFor();
  assert.is(await page.getByRole('button', { name: 'Rotate Off' }).count(), 0, 'its new secret would be refused too');
  await press(page, 'Rotate Northwind backend');
  await page.getByRole('dialog', { name: 'Rotate the key' }).waitFor();
  await requireInAllLooks(page, 'portal-rotate');
  await requireAsPictured(page, 'portal/portal-rotate');
  await type(page, 'Keep the old secret working for', 'a day');
  await press(page, 'Rotate key');
  const made = page.getByRole('dialog', { name: 'The new secret' });
  const secret = await made.getByLabel('Secret of the key').inputValue();
  const { verify } = makeCustomers(own.world, shown.workspaceId);
  assert.is((await verify({ key: secret })).body.status, 'VALID');
  await requireInAllLooks(page, 'portal-secret');
  await press(page, 'Close');
  await made.waitFor({ state: 'detached' });
  assert.is(await focused(page), 'Rotate Northwind backend');
  assert.not.ok((await page.content()).includes(secret));
  await press(page, 'Leave');
  await page.getByText('You have left.').waitFor();
  await page.reload();
  await page.getByRole('alert').getByText('The link has ended').waitFor();
  await requireInAllLooks(page, 'portal-ended');
  await requireAsPictured(page, 'portal/portal-ended');
});

test('an error shows what the api said and the id of the request, and another try goes on with the same link', async () => {
  const { page } = await visit(own.browser);
  await page.route('**/portal/session', (route) => route.abort());
  await go(page, await link());
  await page.getByRole('alert').getByText('cannot be reached').waitFor();
  await page.unroute('**/portal/session');
  await page.getByRole('button', { name: 'Try again' }).click();
  await inTable(page, 'Keys', 'Northwind backend');
  // A second link in the same window: only the fragment changes.
  const other = await link({ customerId: 'harbour' });
  await page.evaluate(`location.hash = '${other}'`);
  await inTable(page, 'Keys', 'Harbour office');
  assert.is(page.url(), `${own.world.api.url}/portal`);
  await go(page, other.slice(0, -1));
  const told = page.getByRole('alert');
  await told.getByText('The link has ended, or was never valid').waitFor();
  assert.match(await told.innerText(), /Request \S+/);
});

test('a page that is open closes when its link is revoked, and shows nothing more', async () => {
  const token = await link();
  const { page } = await visit(own.browser);
  await page.clock.install();
  await go(page, token);
  await inTable(page, 'Keys', 'Northwind backend');
  await must(200, own.world.call('delete', `/api/v1/link-token/${token}`));
  const portal = `${own.world.api.url}/api/v1/portal`;
  await eventually('the session ends', async () => {
    return (await page.request.get(portal, { headers: { 'X-Keytally-Session': '1' } })).status() === 401;
  });
  await page.clock.runFor(31_000);
  await page.getByRole('alert').getByText('The link has ended').waitFor();
  assert.not.ok((await page.content()).includes('Northwind'));
});

async function link(fields: object = {}): Promise<string> {
  const body = { workspaceId: shown.workspaceId, customerId: 'northwind', ...fields };
  return (await must(201, own.world.call('post', '/api/v1/link-token', body))).body.linkToken.token;
}

async function go(page: Page, token: string): Promise<void> {
  await page.goto('about:blank');
  await page.goto(`${own.world.api.url}/portal#${token}`);
}
