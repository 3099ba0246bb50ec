import { readFileSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { eventually, must, newWorkspace } from '../../helpers/world.ts';
import { inTable, rowOf, visit } from './helpers/browser.ts';
import { answer, confirm, fill, press, pressClose, tick, type } from './helpers/keyboard.ts';
import { consoleSuite } from './helpers/suite.ts';

// Every task of the pages of customers, by keyboard alone.

const { test, own } = await consoleSuite('customers in the console');

test('a customer is made, found, given credits for good, until a day and by a schedule, and may spend below zero', async () => {
  // As long as a secret, and with digits.
  const another = 'another-0123456789-customer-of-it';
  await own.customers.newMeter({ externalMeterId: another });
  const { page } = await own.open('customers');
  const available = (text: string) => page.getByText(`${text} credits available`).waitFor();
  await answer(page, 'New customer', 'New customer', { Customer: 'By keyboard', 'First credits': '5' });
  await page.getByRole('heading', { level: 1, name: 'By keyboard' }).waitFor();
  await press(page, 'Customers');
  await fill(page, { 'With fewer credits than': 'ten' });
  await page.getByText('Write an amount such as').waitFor();
  await page.getByLabel('With fewer credits than').fill('');
  await fill(page, { 'With fewer credits than': '1,500' });
  await page.getByText('It can be read in two ways: write 1500, or 1.5000.').waitFor();
  await page.getByLabel('With fewer credits than').fill('1500');
  await fill(page, { 'Find customers': another });
  await rowOf(page, 'Customers', another).waitFor();
  await page.getByLabel('Find customers').fill('');
  await fill(page, { 'Find customers': 'KEYB' });
  await rowOf(page, 'Customers', another).waitFor({ state: 'detached' });
  await press(page, 'By keyboard');
  await available('5');

  await press(page, 'Add credits');
  const form = page.getByRole('dialog', { name: 'Add credits' });
  // The page behind it has something of the same name.
  await form.getByLabel('Credits').waitFor();
  await fill(page, { Credits: 'nonsense' });
  await form.getByRole('alert').getByText('Credits', { exact: true }).waitFor();
  await form.getByText('Write an amount such as 1000 or 0.25').waitFor();
  assert.is(await form.getByText('must match pattern').isVisible(), false, 'what the api said is under Details');
  await form.getByLabel('Credits').fill('');
  await type(page, 'Credits', '2,000.000001');
  await form.getByText('5 → 2,005.000001 credits available. They never end.').waitFor();
  let isHeld = false;
  await page.route('**/refill', async (route) => {
    await page.keyboard.press('Escape');
    isHeld = await form.isVisible();
    await route.continue();
  });
  await page.keyboard.press('Enter');
  await form.waitFor({ state: 'detached' });
  assert.ok(isHeld, 'what is being added is not added again');
  await available('2,005.000001');
  await press(page, 'Credits');
  await inTable(page, 'Ledger', '2,000.000001');
  await answer(page, 'Add credits', 'Add credits', { Credits: '25', 'They end': 'on Friday', Reason: 'trial' });
  await available('2,030.000001');
  await page.getByRole('figure', { name: 'Credits of the customer' }).getByText('left of trial').waitFor();
  const [{ ends }] = await own.world.sql<
    [{ ends: number }]
  >`select expires_at as ends from grants where name = 'trial'`;
  assert.equal([new Date(ends).getDay(), new Date(ends).getHours()], [5, 23]);
  await answer(page, 'Void trial', 'Void the grant', { Reason: 'ended early' });
  await rowOf(page, 'Ledger', 'trial').getByText('Voided').waitFor();
  const monthly = { Credits: '3', Every: 'month', 'Time zone': 'Europe/Oslo', Name: 'included' };
  await answer(page, 'New schedule', 'New schedule', monthly);
  await inTable(page, 'Grant schedules', 'month, Europe/Oslo');
  await available('2,008.000001');
  await confirm(page, 'Delete the schedule included', 'Delete for good');
  await page.getByText('No schedule.').waitFor();

  await press(page, 'Spending rules');
  await tick(page, 'Allow spending below zero');
  await fill(page, { 'Spend cap': '3000' });
  await page.getByText('allowed up to the cap').waitFor();
  const { key } = await own.customers.newKey({ externalMeterId: 'By keyboard', name: 'Their backend' });
  const billing = { usage: '2008.1' };
  assert.is((await own.customers.verify({ key, billing })).body.status, 'VALID');
  await page.reload();
  await available('-0.099999');
  await page.getByText('Overdrawn', { exact: true }).waitFor();
  await page.getByRole('navigation', { name: 'Parts of the page' }).getByRole('link', { name: 'Keys' }).click();
  await press(page, 'Their backend');
  await press(page, 'By keyboard');
  await available('-0.099999');
  const home = page.url();
  await page.goto(home.replace(own.workspaceId, await newWorkspace(own.world, { name: 'Another' })));
  await page.waitForURL(home);
  await available('-0.099999');
  await page.goto(home.replace(/customers.*/, 'calls?from=day'));
  await page.getByRole('button', { name: 'Find' }).waitFor();
});

test('a plan is made, chosen for a new customer, changed for all, and replaced when the period ends', async () => {
  const { page } = await own.open('plans');
  const free = { Name: 'free', Allowance: '10', 'Credits at the start, once': '5', 'They end after days': '0.5' };
  await answer(page, 'New plan', 'New plan', free);
  await rowOf(page, 'Plans', 'free').getByText('10 every month, 5 once (trial)').waitFor();
  await answer(page, 'New plan', 'New plan', { Name: 'pro', Allowance: '1000', 'Spend cap': '9' });
  await press(page, 'Customers');
  await answer(page, 'New customer', 'New customer', { Plan: 'free', Customer: 'On a plan' });
  await page.getByText('15 credits available').waitFor();
  const changeTo = async (plan: string, when: string) => {
    await press(page, 'Change plan');
    await type(page, 'Plan', plan);
    await type(page, 'When', when);
    await press(page, 'Save');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  };
  await changeTo('pro', 'when');
  await page.getByText(', then pro').waitFor();
  await changeTo('pro', 'now');
  await page.getByText('1,000 credits available').waitFor();
  await press(page, 'Plans');
  await answer(page, 'Edit free', 'Edit the plan', { Name: 'basic' });
  await rowOf(page, 'Plans', 'basic').waitFor();
  await press(page, 'Edit pro');
  await tick(page, 'Also for all customers that have it, from their next period on');
  await fill(page, { 'Spend cap': '8' });
  await rowOf(page, 'Plans', 'pro').getByText(/^2/).waitFor();
});

test('usage, a hold, an alert and a limit are told; a month has a statement, its files what the api has, and the books a proof', async () => {
  const { id, key } = await record('used', '100');
  const { page } = await own.open(`customers/${id}?tab=Limits and alerts`);
  const monthly = { Of: 'credits', Per: 'month', Name: 'monthly', 'At most': '90' };
  await answer(page, 'New limit', 'New limit', monthly);
  await rowOf(page, 'Limits', 'monthly').getByText('month, resets at 00:00 UTC').waitFor();
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
  const fact = (name: string) => page.locator('dl.facts div').filter({ hasText: name }).locator('dd').innerText();
  assert.equal([await fact('Used today'), await fact('Used this month')], ['51.250001', '51.250001']);
  await inTable(page, 'Crossed alerts', 'half');
  for (const [tab, table, text] of [
    ['Calls', 'Recent calls', 'Over a limit on credits'],
    ['Credits', 'Ledger', 'Held for tokens, then'],
    ['Usage', 'Usage by day', '50.25'],
    ['Usage', 'Usage by day', '1.000001'],
    ['Activity', 'Audit log', 'Created customer'],
    ['Statement', 'Movements', 'usage: tokens'],
  ] as const) {
    await page.getByRole('navigation', { name: 'Parts of the page' }).getByRole('link', { name: tab }).click();
    await inTable(page, table, text);
  }
  const month = await page.getByLabel('Month', { exact: true }).inputValue();
  await requireSaved('Download the statement', `/api/v1/customer-billing/${id}/statement?month=${month}&format=csv`);
  await press(page, 'Prove the books');
  await page.getByText('Exact: the books have all that was used, and no more').waitFor();
  await page.goBack();
  await page.goBack();
  await inTable(page, 'Usage by day', 'images');
  const [, first] = await page.getByRole('region', { name: 'Usage by day' }).getByRole('row').allInnerTexts();
  assert.match(first!, 'images', 'names from A to Z within a day');
  await requireSaved('Download CSV', `/api/v1/usage/${id}?from=2000-01-01&to=2099-01-01&format=csv`);
  await page.goto(`${own.world.api.url}/console/w/${own.workspaceId}/customers/${id}?tab=Limits and alerts`);
  await rowOf(page, 'Limits', 'monthly').getByText('51.250001').waitFor();
  await confirm(page, 'Delete half', 'Delete for good');
  await page.getByText('None of its own').waitFor();
  await press(page, 'Undo');
  await inTable(page, 'Alerts', 'half');

  async function requireSaved(button: string, path: string): Promise<void> {
    const coming = page.waitForEvent('download');
    await press(page, button);
    const saved = readFileSync(await (await coming).path(), 'utf8');
    assert.is(saved, (await must(200, own.world.call('get', path))).text);
  }
});

test('a portal link is made for the customer of the keys, shown once, opens with what it permits, and is revoked', async () => {
  const { id } = await record('linked', '100', { name: 'Linked backend', customerId: 'cus_linked' });
  const { page } = await own.open(`customers/${id}`);
  await press(page, 'New key');
  await fill(page, { Name: 'Second backend' });
  await page.getByRole('dialog', { name: 'The new key' }).waitFor();
  await pressClose(page);
  await inTable(page, 'Keys', 'Second backend');
  const [second] = await own.world.sql`select customer_id from api_keys where name = 'Second backend'`;
  assert.is(second!['customerId'], 'cus_linked', 'keys of one customer have one id of it');
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
  await page.goto(`${own.world.api.url}/console/w/${own.workspaceId}/audit-log`);
  await rowOf(page, 'Audit log', 'Opened session').getByText('a customer, by a portal link').first().waitFor();
  await page.goBack();

  await own.customers.newKey({ externalMeterId: 'linked', customerId: 'cus_other' });
  await page.reload();
  await press(page, 'Portal link');
  await page.getByRole('dialog').getByText('of several customers').waitFor();
});

async function record(externalMeterId: string, totalCredits: string, ofKey: object = {}, more: object = {}) {
  await own.customers.newMeter({ externalMeterId, totalCredits, ...more });
  const { key } = await own.customers.newKey({ externalMeterId, ...ofKey });
  return { id: (await own.customers.billing(externalMeterId)).id, key };
}
