import type { Route } from 'playwright-core';
import * as assert from 'uvu/assert';
import { must } from '../../helpers/customers.ts';
import { eventually } from '../../helpers/world.ts';
import { inTable, rowOf } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';

// What the console does where an answer is lost or late: nothing that was shown is gone, and nothing is done twice.

const { test, own } = await consoleSuite('failures in the console');

const LATER_PAGES = /\/api-keys\?.*cursor=/;
const away = (route: Route) => route.abort('connectionreset');
// The server does what it was asked, and its answer is lost.
const unanswered = async (route: Route) => {
  await route.fetch();
  await route.abort('connectionreset');
};

test('a new secret stays until its dialog is closed, also where its page can not be read again, and is selected where there is no clipboard', async () => {
  const { id } = await own.customers.newKey({ name: 'Backend' });
  const { page, close } = await own.open(`keys/${id}`);
  await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`);
  await page.getByRole('button', { name: 'Rotate' }).click();
  await page.route(`**/api-key/${id}`, away);
  await page.getByRole('button', { name: 'Rotate key' }).click();
  await page.getByText('cannot be reached').waitFor();
  const made = page.getByRole('dialog', { name: 'The new secret' });
  const secret = await made.getByLabel('Secret of the key').inputValue();
  assert.is((await own.customers.verify({ key: secret })).body.status, 'VALID');
  assert.is(await page.evaluate('document.activeElement.ariaLabel'), 'Secret of the key', 'a screen reader tells it');
  await made.getByRole('button', { name: 'Copy' }).click();
  await made.getByRole('status').getByText('copy it by hand').waitFor();
  assert.is(await page.evaluate('String(getSelection())'), secret);
  await page.keyboard.press('Escape');
  await page.unroute(`**/api-key/${id}`);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('cannot be reached').waitFor({ state: 'detached' });
  await close();
});

test('a refill whose answer was lost shows when its form is closed, and the next one of the same amount is another', async () => {
  const { page, close } = await own.open(`customers/${await newRecord('lost answers')}`);
  await page.getByText('100 credits available').waitFor();
  await page.route('**/refill', unanswered, { times: 1 });
  const refill = async () => {
    await page.getByRole('button', { name: 'Refill' }).click();
    await page.getByRole('dialog').getByLabel('Credits').fill('7');
    await page.getByRole('dialog').getByRole('button', { name: 'Add credits' }).click();
  };
  await refill();
  await page.getByRole('dialog').getByText('cannot be reached').waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('107 credits available').waitFor();
  await refill();
  await page.getByText('114 credits available').waitFor();
  await close();
});

test('the rows of a list stay where a further page fails, and another try goes on', async () => {
  const { id } = await own.customers.newKey({ name: 'Last of many' });
  // Copies of a key, as the api stores them.
  await own.world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object(
      'id', 'key_00' || lpad(i::text, 24, '0'), 'name', 'Many ' || i))).*
    from api_keys k, generate_series(1, 400) i where k.id = ${id}`;
  const { page, close } = await own.open('keys');
  const toTheEnd = () => page.evaluate(`document.querySelector('[role=region]').scrollTo(0, 1e6)`);
  await page.route(LATER_PAGES, away);
  await inTable(page, 'Keys', 'Many ');
  await toTheEnd();
  await page.getByText('cannot be reached').waitFor();
  await inTable(page, 'Keys', 'Many ');
  await page.unroute(LATER_PAGES);
  await page.getByRole('button', { name: 'Try again' }).click();
  await eventually('the list goes on', async () => {
    await toTheEnd();
    return (await rowOf(page, 'Keys', 'Many 400').count()) > 0;
  });
  await close();
});

test('who could not be signed out is told so, and is signed in still', async () => {
  const { page, close } = await own.open('keys');
  await page.route('**/console/session', away);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('alert').getByText('cannot be reached').waitFor();
  await page.unroute('**/console/session');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
  await close();
});

test('a new name leaves the moment at which a key expires as it is', async () => {
  const expiresAt = Date.now() + 3_600_000 + 12_345;
  const { id } = await own.customers.newKey({ name: 'Exact', expiresAt });
  const { page, close } = await own.open(`keys/${id}`);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Renamed');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Renamed' }).waitFor();
  const path = `/api/v1/workspace/${own.workspaceId}/api-key/${id}`;
  assert.is((await own.world.call('get', path)).body.apiKey.expiresAt, expiresAt);
  await close();
});

test('two alerts that are removed one right after the other are both gone, and focus stays beside them', async () => {
  const id = await newRecord('watched');
  const alerts = ['a', 'b', 'c'].map((name) => ({ name: `alert ${name}`, when: { usedPercent: 50 } }));
  await must(200, own.world.call('patch', `/api/v1/customer-billing/${id}`, { alerts }));
  const { page, close } = await own.open(`customers/${id}`);
  await inTable(page, 'Alerts', 'alert a');
  await page.evaluate(`for (const name of ['alert a', 'alert b'])
    document.querySelector('button[aria-label="Remove ' + name + '"]').click()`);
  for (const name of ['alert a', 'alert b']) await rowOf(page, 'Alerts', name).waitFor({ state: 'detached' });
  const { billing } = (await own.world.call('get', `/api/v1/customer-billing/${id}`)).body;
  assert.equal(billing.alerts, [alerts[2]]);
  const last = page.getByRole('button', { name: 'Remove alert c' });
  await last.focus();
  await page.keyboard.press('Enter');
  await last.waitFor({ state: 'detached' });
  assert.ok(await page.evaluate(`document.activeElement.closest('#main') !== null`));
  await close();
});

async function newRecord(externalMeterId: string): Promise<string> {
  await own.customers.newMeter({ externalMeterId, totalCredits: '100' });
  return (await own.customers.billing(externalMeterId)).id;
}
