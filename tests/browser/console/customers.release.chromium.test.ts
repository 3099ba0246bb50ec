import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { dayOf } from '../../../shared/events/event.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { makeCustomers, must, type Customers } from '../../helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, rowOf, signedIn, signIn, stackOf, visit } from './helpers/browser.ts';

// The tasks of the pages of customers, as a person does them.

let world: World;
let browser: Browser;
let workspaceId: string;
let customers: Customers;
const test = suite('customers in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Weather' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('a record is made and refilled, may be overdrawn, and its ledger tells each refill', async () => {
  const { page, close } = await open('customers', 'Customers');
  await page.getByText('No record yet.').waitFor();
  await page.getByRole('button', { name: 'New record' }).click();
  const form = page.getByRole('dialog', { name: 'New billing record' });
  await form.getByLabel('Meter').fill('northwind');
  await form.getByLabel('First credits').fill('10.5');
  await form.getByRole('button', { name: 'Create record' }).click();
  await page.getByRole('heading', { level: 1, name: 'northwind' }).waitFor();
  await page.getByText('10.5 credits available').waitFor();

  await page.getByRole('button', { name: 'Refill' }).click();
  const refill = page.getByRole('dialog', { name: 'Refill' });
  await refill.getByLabel('Credits').fill('nonsense');
  await refill.getByRole('button', { name: 'Add credits' }).click();
  await refill.getByRole('alert').getByText('/refill', { exact: true }).waitFor();
  await refill.getByLabel('Credits').fill('2000.000001');
  await refill.getByRole('button', { name: 'Add credits' }).click();
  await page.getByText('2,010.500001 credits available').waitFor();
  await inTable(page, 'Ledger', '2,000.000001');

  const { key } = await customers.newKey({ externalMeterId: 'northwind' });
  const call = () => customers.verify({ key, billing: { usage: '2010.6' } });
  assert.is((await call()).body.status, 'USAGE_LIMITED');
  await page.getByRole('button', { name: 'Overage and cap' }).click();
  const settings = page.getByRole('dialog', { name: 'Overage and cap' });
  await settings.getByLabel('May go on when the credits are used up').check();
  await settings.getByRole('button', { name: 'Save' }).click();
  await page.getByText('calls go on').waitFor();
  assert.is((await call()).body.status, 'VALID');
  await page.reload();
  await page.getByText('-0.099999 credits available').waitFor();
  await page.getByText('Overdrawn', { exact: true }).waitFor();
  await close();
});

test('credits are granted until a day and voided, come by a schedule, and the bar shows each grant', async () => {
  const { id } = await record('granted', '100');
  const { page, close } = await open(`customers/${id}`, 'granted');
  await page.getByRole('button', { name: 'Grant credits' }).click();
  const form = page.getByRole('dialog', { name: 'Grant credits' });
  await form.getByLabel('Credits').fill('25');
  await form.getByLabel('Name').fill('trial');
  await form.getByLabel('Ends').fill('2099-12-31T12:00');
  await form.getByLabel('Priority').fill('10');
  await form.getByRole('button', { name: 'Grant', exact: true }).click();
  await page.getByText('125 credits available').waitFor();
  const bar = page.getByRole('figure', { name: 'Credits of the record' });
  await bar.getByText('left of trial').waitFor();
  const row = rowOf(page, 'Grants', 'trial');
  assert.match(await row.innerText(), /25[^]*25[^]*Active[^]*2099/);

  await page.getByRole('button', { name: 'New schedule' }).click();
  const schedule = page.getByRole('dialog', { name: 'New schedule' });
  await schedule.getByLabel('Credits').fill('7');
  await schedule.getByLabel('Every').selectOption('month');
  await schedule.getByLabel('Time zone').fill('Europe/Oslo');
  await schedule.getByLabel('Name').fill('included');
  await schedule.getByRole('button', { name: 'Create schedule' }).click();
  await inTable(page, 'Grant schedules', 'month, Europe/Oslo');
  await page.getByText('132 credits available').waitFor();

  await row.getByRole('button', { name: 'Void trial' }).click();
  const dialog = page.getByRole('dialog', { name: 'Void the grant' });
  await dialog.getByLabel('Reason').fill('ended early');
  await dialog.getByRole('button', { name: 'Void for good' }).click();
  await page.getByText('107 credits available').waitFor();
  await row.getByText('Voided').waitFor();

  await page.getByRole('button', { name: 'Delete the schedule included' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete for good' }).click();
  await page.getByText('No schedule.').waitFor();
  await close();
});

test('usage, an open hold, a crossed alert and a limit are told; a month has a statement, and the books a proof', async () => {
  const { id, key } = await record('used', '100');
  const { page, close } = await open(`customers/${id}`, 'used');
  await page.getByText('Nothing was used.').waitFor();
  await page.getByText('No open hold.').waitFor();

  await page.getByRole('button', { name: 'New alert' }).click();
  const alert = page.getByRole('dialog', { name: 'New alert' });
  await alert.getByLabel('Name').fill('half');
  await alert.getByLabel('From').fill('50');
  await alert.getByRole('button', { name: 'Add alert' }).click();
  await page.getByText('when 50% of the credits are used').waitFor();
  await page.getByRole('button', { name: 'Change limits' }).click();
  const limits = page.getByRole('dialog', { name: 'Limits of the record' });
  await limits.getByRole('button', { name: 'Add a limit' }).click();
  await limits.getByLabel('Name').fill('monthly');
  await limits.getByLabel('At most').fill('90');
  await limits.getByLabel('Of', { exact: true }).selectOption('credits');
  await limits.getByLabel('Per').selectOption('month');
  await limits.getByRole('button', { name: 'Save limits' }).click();
  await inTable(page, 'Limits', 'monthly');

  await must(200, customers.verify({ key, billing: { usage: '50.25', usageName: 'tokens' } }));
  await must(200, customers.verify({ key, billing: { usage: '0.000001', usageName: 'images' } }));
  const hold = { usage: '5', usageName: 'tokens', hold: { expiresIn: 3_600 } };
  await must(200, customers.verify({ key, billing: hold }));
  const refused = (await customers.verify({ key, billing: { usage: '40' } })).body;
  assert.is(refused.limitedBy.name, 'monthly');
  await eventually('usage and alert are in the books', async () => {
    const { data } = (await world.call('get', `/api/v1/usage/${id}`)).body;
    const { alerts } = (await world.call('get', `/api/v1/customer-billing/${id}/alerts`)).body;
    return data.length === 2 && alerts.length === 1;
  });
  await page.reload();
  await page.getByText('44.749999 credits available').waitFor();
  await inTable(page, 'Usage by day', '50.25');
  await inTable(page, 'Usage by day', '0.000001');
  await inTable(page, 'Holds', 'tokens');
  await inTable(page, 'Crossed alerts', 'half');
  await inTable(page, 'Movements', 'usage: tokens');

  assert.is(
    await saved(page, 'Download CSV'),
    await textOf(`/api/v1/usage/${id}?from=2000-01-01&to=2099-01-01&format=csv`),
  );
  const month = await page.getByLabel('Month').inputValue();
  assert.is(
    await saved(page, 'Download the statement'),
    await textOf(`/api/v1/customer-billing/${id}/statement?month=${month}&format=csv`),
  );
  await page.getByRole('button', { name: 'Prove the books' }).click();
  await page.getByText('Exact: the books have all that was used, and no more').waitFor();

  await page.getByRole('button', { name: 'Remove half' }).click();
  await page.getByText('None of its own').waitFor();
  await close();
});

test('a portal link is made for the customer of the keys, shown once, opens with what it permits, and is revoked', async () => {
  const { id } = await record('linked', '100');
  await customers.newKey({ name: 'Linked backend', externalMeterId: 'linked', customerId: 'cus_linked' });
  await must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${(await keysOf('linked'))[0]!.id}`));
  const { page, close } = await open(`customers/${id}`, 'linked');
  const make = async (mayRotate: boolean): Promise<string> => {
    await page.getByRole('button', { name: 'Portal link' }).click();
    const form = page.getByRole('dialog', { name: 'New portal link' });
    assert.is(await form.getByLabel('Customer', { exact: true }).inputValue(), 'cus_linked');
    await form.getByLabel('Open for').selectOption('an hour');
    if (mayRotate) await form.getByLabel('The customer may rotate their own keys').check();
    await form.getByRole('button', { name: 'Make the link' }).click();
    const made = page.getByRole('dialog', { name: 'The new portal link' });
    await made.getByText('It opens the portal of cus_linked until').waitFor();
    return made.getByLabel('Portal link').inputValue();
  };
  const link = await make(true);
  const customer = await visit(browser);
  await customer.page.goto(link);
  await customer.page.getByRole('button', { name: 'Rotate Linked backend' }).waitFor();
  await page.getByRole('button', { name: 'Revoke the link' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.not.ok((await page.content()).includes(link), 'it is shown once');
  const ended = customer.page.getByRole('alert').getByText('The link has ended');
  await eventually('the revoked link opens nothing', async () => {
    await customer.page.goto('about:blank');
    await customer.page.goto(link);
    await ended.or(customer.page.getByRole('button', { name: 'Rotate Linked backend' })).waitFor();
    return ended.isVisible();
  });

  const other = await make(false);
  await page.getByRole('button', { name: 'Copy' }).click();
  assert.is(await page.evaluate<string>('navigator.clipboard.readText()'), other);
  await customer.page.goto('about:blank');
  await customer.page.goto(other);
  await inTable(customer.page, 'Keys', 'Linked backend');
  assert.is(await customer.page.getByRole('button', { name: /^Rotate/ }).count(), 0);
  await customer.close();
  await close();
});

test('who may not make links is not offered it, and a record of two customers says that none sees its balance', async () => {
  const { id } = await record('shared', '100');
  for (const customerId of ['cus_a', 'cus_b']) await customers.newKey({ externalMeterId: 'shared', customerId });
  const { page, close } = await open(`customers/${id}`, 'shared');
  await page.getByRole('button', { name: 'Portal link' }).click();
  const form = page.getByRole('dialog', { name: 'New portal link' });
  await form.getByText('of several customers').waitFor();
  assert.equal(await form.getByLabel('Customer', { exact: true }).getByRole('option').allInnerTexts(), [
    'cus_a',
    'cus_b',
  ]);
  await close();

  const permissions = ['workspace:read', 'key:read', 'billing:read', 'usage:read'];
  const body = { name: 'reader', permissions };
  const { accessToken } = (await must(201, world.call('post', '/api/v1/access-token', body))).body;
  const reader = await visit(browser);
  await signIn(reader.page, world.api.url, accessToken.token);
  await reader.page.goto(`${world.api.url}/console/w/${workspaceId}/customers/${id}`);
  await reader.page.getByText('100 credits available').waitFor();
  assert.is(await reader.page.getByRole('button', { name: 'Portal link' }).count(), 0);
  await reader.close();
});

test('a postpaid record is no trouble before its cap, its days are told newest first, and its calls by answer', async () => {
  const postpaid = { externalMeterId: 'postpaid', allowOverages: true, spendCap: '30' };
  await customers.newMeter(postpaid);
  const { id } = await customers.billing('postpaid');
  const { key } = await customers.newKey({ externalMeterId: 'postpaid' });
  const { page, close } = await open(`customers/${id}`, 'postpaid');
  const colourOf = async (state: string) => {
    await page.getByText(state, { exact: true }).waitFor();
    return page.evaluate<string>(
      `getComputedStyle([...document.querySelectorAll('span')].find((one) => one.innerText === '${state}')).color`,
    );
  };
  const grey = await colourOf('Used up');
  await must(200, customers.verify({ key, billing: { usage: '2.5', usageName: 'images' } }));
  await must(200, customers.verify({ key, billing: { usage: '10', usageName: 'tokens' } }));
  await page.reload();
  await page.getByText('-12.5 credits available').waitFor();
  assert.is(await colourOf('Overdrawn'), grey);
  const day = dayOf(Date.now() - DAY_MS);
  const correction = { amount: '-2', usageName: 'tokens', reason: 'counted twice', day };
  const path = `/api/v1/customer-billing/${id}/adjustment`;
  await must(201, world.call('post', path, correction, { headers: { 'Idempotency-Key': 'counted-twice' } }));
  await must(200, customers.verify({ key, billing: { usage: '19.5', usageName: 'tokens' } }));
  assert.is((await customers.verify({ key, billing: { usage: '1' } })).body.status, 'USAGE_LIMITED');
  await eventually('all is in the books', async () => {
    const asked = { workspaceId, externalMeterId: 'postpaid', from: dayOf(Date.now() - DAY_MS), groupBy: 'status' };
    const query = new URLSearchParams(asked).toString();
    const { data } = (await world.call('get', `/api/v1/verifications?${query}`)).body;
    return data.reduce((sum: number, { count }: { count: number }) => sum + count, 0) === 4;
  });
  await page.reload();
  await page.getByText('-30 credits available').waitFor();
  assert.is.not(await colourOf('Cap reached'), grey);
  assert.match(await rowOf(page, 'Calls by answer', 'SPEND_CAP_REACHED').innerText(), /1$/);
  assert.match(await rowOf(page, 'Calls by answer', 'VALID').innerText(), /3$/);
  assert.equal(await stackOf(page, 'images'), ['images', 'tokens']);
  const daysOf = async (table: string) =>
    (await page.getByRole('region', { name: table }).getByRole('row').allInnerTexts())
      .slice(1)
      .map((text) => text.slice(0, day.length));
  for (const table of ['Usage by day', 'Movements']) {
    const days = await daysOf(table);
    assert.equal(days, days.toSorted().toReversed(), table);
  }
  assert.is(new Set(await daysOf('Usage by day')).size, 2);
  assert.match(await rowOf(page, 'Movements', 'Usage: tokens').first().innerText(), /-29\.5$/);
  const corrected = rowOf(page, 'Movements', 'Correction: tokens').or(rowOf(page, 'Movements', 'Late: tokens'));
  // Yesterday may be of the month before.
  if (day.slice(0, 7) === new Date().toISOString().slice(0, 7))
    assert.match(await corrected.first().innerText(), /counted twice\s+2$/);
  await close();
});

test('records are listed with what is available, used and held, and found by meter, by customer, and by what is available', async () => {
  await customers.newMeter({ externalMeterId: 'owing', totalCredits: '1', allowOverages: true });
  const { key } = await customers.newKey({ externalMeterId: 'owing' });
  await must(200, customers.verify({ key, billing: { usage: '1234.000001' } }));
  await must(200, customers.verify({ key, billing: { usage: '2.5', hold: { expiresIn: 3_600 } } }));
  await record('rich', '1000000');
  await record('poor', '0.5');
  await customers.newKey({ externalMeterId: 'poor', customerId: 'cus_poor' });
  const { page, close } = await open('customers', 'Customers');
  await inTable(page, 'Billing records', 'rich');
  await eventually('the list has the amounts', async () => {
    await page.reload();
    await inTable(page, 'Billing records', 'owing');
    const text = await rowOf(page, 'Billing records', 'owing').innerText();
    return /^owing\s+-1,235\.500001\s+1,234\.000001\s+2\.5\s+Overdrawn$/.test(text);
  });
  for (const [label, text] of [
    ['Meter', 'poor'],
    ['Customer', 'cus_poor'],
    ['Available below', '1'],
  ] as const) {
    await page.getByLabel(label).fill(text);
    await page.getByRole('button', { name: 'Find' }).click();
    await rowOf(page, 'Billing records', 'rich').waitFor({ state: 'detached' });
    await inTable(page, 'Billing records', 'poor');
    await page.getByLabel(label).fill('');
    await page.getByRole('button', { name: 'Find' }).click();
    await inTable(page, 'Billing records', 'rich');
  }
  await close();
});

test.run();

async function record(externalMeterId: string, totalCredits: string): Promise<{ id: string; key: string }> {
  await customers.newMeter({ externalMeterId, totalCredits });
  const { key } = await customers.newKey({ externalMeterId });
  return { id: (await customers.billing(externalMeterId)).id, key };
}

async function keysOf(externalMeterId: string): Promise<{ id: string }[]> {
  const query = new URLSearchParams({ externalMeterId }).toString();
  return (await must(200, world.call('get', `/api/v1/workspace/${workspaceId}/api-keys?${query}`))).body.apiKeys;
}

async function saved(page: Page, button: string): Promise<string> {
  const coming = page.waitForEvent('download');
  await page.getByRole('button', { name: button }).click();
  return readFileSync(await (await coming).path(), 'utf8');
}

async function textOf(path: string): Promise<string> {
  return (await must(200, world.call('get', path))).text;
}

async function open(path: string, heading: string): Promise<{ page: Page; close(): Promise<void> }> {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
  await page.getByRole('heading', { level: 1, name: heading, exact: true }).waitFor();
  return { page, close };
}
