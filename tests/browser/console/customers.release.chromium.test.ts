import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import * as assert from 'uvu/assert';
import { must } from '../../helpers/customers.ts';
import { eventually } from '../../helpers/world.ts';
import { inTable, rowOf, visit } from './helpers/browser.ts';
import { answer, confirm, fill, press, tick } from './helpers/keyboard.ts';
import { consoleSuite } from './helpers/suite.ts';

// Every task of the pages of customers, by keyboard alone.

const { test, own } = await consoleSuite('customers in the console');

test('a record is made, found, refilled, granted credits once and by a schedule, and may be overdrawn', async () => {
  await own.customers.newMeter({ externalMeterId: 'another' });
  const { page, close } = await own.open('customers');
  const available = (text: string) => page.getByText(`${text} credits available`).waitFor();
  await answer(page, 'New record', 'New record', { Meter: 'keyboard', 'First credits': '5' });
  await page.getByRole('heading', { level: 1, name: 'keyboard' }).waitFor();
  await press(page, 'Customers');
  await fill(page, { Meter: 'keyboard' });
  await rowOf(page, 'Billing records', 'another').waitFor({ state: 'detached' });
  await press(page, 'keyboard');
  await available('5');

  await press(page, 'Refill');
  await fill(page, { Credits: 'nonsense' });
  await page.getByRole('alert').getByText('Credits', { exact: true }).waitFor();
  await page.getByRole('dialog').getByLabel('Credits').fill('');
  await fill(page, { Credits: '2000.000001' });
  await available('2,005.000001');
  await inTable(page, 'Ledger', '2,000.000001');
  await answer(page, 'Grant credits', 'Grant credits', { Credits: '25', Name: 'trial', Priority: '10' });
  await available('2,030.000001');
  await page.getByRole('figure', { name: 'Credits of the record' }).getByText('left of trial').waitFor();
  await answer(page, 'Void trial', 'Void the grant', { Reason: 'ended early' });
  await rowOf(page, 'Grants', 'trial').getByText('Voided').waitFor();
  const monthly = { Credits: '3', Every: 'month', 'Time zone': 'Europe/Oslo', Name: 'included' };
  await answer(page, 'New schedule', 'New schedule', monthly);
  await inTable(page, 'Grant schedules', 'month, Europe/Oslo');
  await available('2,008.000001');
  await confirm(page, 'Delete the schedule included', 'Delete for good');
  await page.getByText('No schedule.').waitFor();

  await press(page, 'Overage and cap');
  await tick(page, 'May go on when the credits are used up');
  await fill(page, { 'Spend cap': '3000' });
  await page.getByText('calls go on').waitFor();
  const { key } = await own.customers.newKey({ externalMeterId: 'keyboard' });
  const billing = { usage: '2008.1' };
  assert.is((await own.customers.verify({ key, billing })).body.status, 'VALID');
  await page.reload();
  await available('-0.099999');
  await page.getByText('Overdrawn', { exact: true }).waitFor();
  await close();
});

test('usage, a hold, an alert and a limit are told; a month has a statement, its files what the api has, and the books a proof', async () => {
  const { id, key } = await record('used', '100');
  const { page, close } = await own.open(`customers/${id}`);
  const monthly = { Of: 'credits', Per: 'month', Name: 'monthly', 'At most': '90' };
  await answer(page, 'New limit', 'New limit', monthly);
  await inTable(page, 'Limits', 'monthly');
  await answer(page, 'New alert', 'New alert', { Name: 'half', From: '50' });
  await page.getByText('when 50% of the credits are used').waitFor();
  for (const billing of [
    { usage: '50.25', usageName: 'tokens' },
    { usage: '1.000001', usageName: 'images' },
    { usage: '5', usageName: 'tokens', hold: { expiresIn: 3_600 } },
  ])
    await must(200, own.customers.verify({ key, billing }));
  await own.customers.verify({ key, billing: { usage: '40' } });
  await eventually('usage and alert are in the books, and the refusal is told', async () => {
    const read = async (path: string) => (await own.world.call('get', `/api/v1/${path}`)).body;
    const { data } = await read(`usage/${id}`);
    const { alerts } = await read(`customer-billing/${id}/alerts`);
    const recent = await read(`verifications/recent?workspaceId=${own.workspaceId}&externalMeterId=used`);
    return data.length === 2 && alerts.length === 1 && recent.data.length === 4;
  });
  await page.reload();
  await page.getByText('43.749999 credits available').waitFor();
  await page.getByText('monthly of the record: at most 90 credits per month').waitFor();
  for (const [table, text] of [
    ['Usage by day', '50.25'],
    ['Usage by day', '1.000001'],
    ['Holds', 'tokens'],
    ['Crossed alerts', 'half'],
    ['Movements', 'usage: tokens'],
  ] as const)
    await inTable(page, table, text);
  const [, first] = await page.getByRole('region', { name: 'Usage by day' }).getByRole('row').allInnerTexts();
  assert.match(first!, 'images', 'names from A to Z within a day');

  const month = await page.getByLabel('Month', { exact: true }).inputValue();
  for (const [button, path] of [
    ['Download CSV', `/api/v1/usage/${id}?from=2000-01-01&to=2099-01-01&format=csv`],
    ['Download the statement', `/api/v1/customer-billing/${id}/statement?month=${month}&format=csv`],
  ] as const)
    assert.is(await saved(page, button), (await must(200, own.world.call('get', path))).text);
  await press(page, 'Prove the books');
  await page.getByText('Exact: the books have all that was used, and no more').waitFor();
  await confirm(page, 'Delete half', 'Delete for good');
  await page.getByText('None of its own').waitFor();
  await close();
});

test('a portal link is made for the customer of the keys, shown once, opens with what it permits, and is revoked', async () => {
  const { id } = await record('linked', '100', { name: 'Linked backend', customerId: 'cus_linked' });
  const { page, close } = await own.open(`customers/${id}`);
  await answer(page, 'Portal link', 'New portal link', { 'Open for': 'an hour', Customer: 'cus_linked' });
  const made = page.getByRole('dialog', { name: 'The new portal link' });
  await made.getByText('It opens the portal of cus_linked until').waitFor();
  const link = await made.getByLabel('Portal link').inputValue();
  const customer = await visit(own.browser);
  await customer.page.goto(link);
  await inTable(customer.page, 'Keys', 'Linked backend');
  assert.is(await customer.page.getByRole('button', { name: /^Rotate/ }).count(), 0);
  await press(page, 'Revoke the link');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.not.ok((await page.content()).includes(link), 'it is shown once');
  await eventually('the revoked link opens nothing', async () => {
    await customer.page.reload();
    return customer.page.getByText('The link has ended').isVisible();
  });
  await customer.close();

  await own.customers.newKey({ externalMeterId: 'linked', customerId: 'cus_other' });
  await page.reload();
  await press(page, 'Portal link');
  await page.getByRole('dialog').getByText('of several customers').waitFor();
  await close();
});

async function record(externalMeterId: string, totalCredits: string, ofKey: object = {}, more: object = {}) {
  await own.customers.newMeter({ externalMeterId, totalCredits, ...more });
  const { key } = await own.customers.newKey({ externalMeterId, ...ofKey });
  return { id: (await own.customers.billing(externalMeterId)).id, key };
}

async function saved(page: Page, button: string): Promise<string> {
  const coming = page.waitForEvent('download');
  await press(page, button);
  return readFileSync(await (await coming).path(), 'utf8');
}
