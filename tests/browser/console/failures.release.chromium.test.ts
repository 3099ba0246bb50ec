import type { Browser, Page, Route } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, rowOf, signedIn } from './helpers/browser.ts';

// What the console does where an answer is lost or refused on its way: nothing that was shown is gone, and nothing is done twice.

let world: World;
let browser: Browser;
let workspaceId: string;
let customers: Customers;
const test = suite('failures in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify']), launch()]);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Weather' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

const open = async (path: string, heading: string) => {
  const visited = await signedIn(browser, world);
  await visited.page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
  await visited.page.getByRole('heading', { level: 1, name: heading }).waitFor();
  return visited;
};
const LATER_PAGES = /\/api-keys\?.*cursor=/;
const away = (route: Route) => route.abort('connectionreset');
// The server does what it was asked, and its answer is lost.
const unanswered = async (route: Route) => {
  await route.fetch();
  await route.abort('connectionreset');
};

test('a new secret stays until its dialog is closed, also where its page can not be read again', async () => {
  const { id } = await customers.newKey({ name: 'Backend' });
  const { page, close } = await open(`keys/${id}`, 'Backend');
  await page.getByRole('button', { name: 'Rotate' }).click();
  await page.route(`**/api-key/${id}`, away);
  await page.getByRole('button', { name: 'Rotate key' }).click();
  const made = page.getByRole('dialog', { name: 'The new secret' });
  const field = made.getByLabel('Secret of the key');
  await page.getByText('cannot be reached').waitFor();
  assert.is((await customers.verify({ key: await field.inputValue() })).body.status, 'VALID');
  assert.is(
    await page.evaluate('document.activeElement.ariaLabel'),
    'Secret of the key',
    'a screen reader tells of it',
  );
  await page.keyboard.press('Escape');
  await page.unroute(`**/api-key/${id}`);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('cannot be reached').waitFor({ state: 'detached' });
  await close();
});

test('a secret is selected for copying by hand where the browser has no clipboard', async () => {
  const { page, close } = await open('keys', 'Keys');
  await page.addInitScript(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`);
  await page.reload();
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByLabel('Name').fill('By hand');
  await page.getByRole('button', { name: 'Create key' }).click();
  const made = page.getByRole('dialog');
  await made.getByRole('button', { name: 'Copy' }).click();
  await made.getByRole('status').getByText('copy it by hand').waitFor();
  const key = await made.getByRole('textbox').inputValue();
  assert.is(await page.evaluate('String(getSelection())'), key);
  await close();
});

test('a refill whose answer was lost shows when its form is closed, and the next one of the same amount is another', async () => {
  const { page, close } = await open(`customers/${await newRecord('lost answers')}`, 'lost answers');
  await page.getByText('100 credits available').waitFor();
  await page.route('**/refill', unanswered, { times: 1 });
  const refill = async () => {
    await page.getByRole('button', { name: 'Refill' }).click();
    const form = page.getByRole('dialog', { name: 'Refill' });
    await form.getByLabel('Credits').fill('7');
    await form.getByRole('button', { name: 'Add credits' }).click();
    return form;
  };
  const form = await refill();
  await form.getByText('cannot be reached').waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('107 credits available').waitFor();
  await refill();
  await page.getByText('114 credits available').waitFor();
  await close();
});

test('what was refused can be done once its reason is gone', async () => {
  const { page, close } = await open('scopes', 'Scopes');
  const scope = { name: 'Reports', representation: 'reports' };
  const { id } = (await must(201, world.call('post', `/api/v1/workspace/${workspaceId}/scope`, scope))).body.scope;
  await page.getByRole('button', { name: 'New scope' }).click();
  const form = page.getByRole('dialog');
  await form.getByLabel('Name').fill('Reports');
  await form.getByLabel('Representation').fill('reports');
  const add = form.locator('button[type=submit]');
  await add.click();
  await form.getByRole('alert').waitFor();
  await must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/scope/${id}`));
  await add.click();
  await inTable(page, 'Scopes', 'Reports');
  await close();
});

test('the rows of a list stay where a further page fails, and another try goes on', async () => {
  const { id } = await customers.newKey({ name: 'Last of many' });
  await fillKeys(id, 400);
  const { page, close } = await open('keys', 'Keys');
  await page.route(LATER_PAGES, away);
  await inTable(page, 'Keys', 'Many ');
  await toTheEnd(page);
  await page.getByText('cannot be reached').waitFor();
  await inTable(page, 'Keys', 'Many ');
  await page.unroute(LATER_PAGES);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('cannot be reached').waitFor({ state: 'detached' });
  await eventually('the list goes on', async () => {
    await toTheEnd(page);
    return (await rowOf(page, 'Keys', 'Many 400').count()) > 0;
  });
  await close();
});

test('a key among more than a thousand is found where one asks why it was refused', async () => {
  const { id } = await customers.newKey({ name: 'Template of more' });
  await fillKeys(id, 1_200, 'More');
  await customers.newKey({ name: 'Needle in the haystack' });
  const { page, close } = await open('why', 'Why was this refused?');
  await page.getByLabel('Key or customer').fill('needle');
  await page.getByRole('button', { name: 'Find' }).click();
  await page.getByRole('link', { name: 'Needle in the haystack' }).waitFor();
  await close();
});

test('who could not be signed out is told so, and is signed in still', async () => {
  const { page, close } = await open('keys', 'Keys');
  await page.route('**/console/session', away);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('alert').getByText('cannot be reached').waitFor();
  await page.unroute('**/console/session');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
  await page.reload();
  await page.getByLabel('Access token').waitFor();
  await close();
});

test('a new name leaves the moment at which a key expires as it is', async () => {
  const expiresAt = Date.now() + 3_600_000 + 12_345;
  const { id } = await customers.newKey({ name: 'Exact', expiresAt });
  const { page, close } = await open(`keys/${id}`, 'Exact');
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Renamed');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Renamed' }).waitFor();
  const { apiKey } = (await world.call('get', `/api/v1/workspace/${workspaceId}/api-key/${id}`)).body;
  assert.is(apiKey.expiresAt, expiresAt);
  await close();
});

test('two alerts that are removed one right after the other are both gone, and focus stays beside them', async () => {
  const bid = await newRecord('watched');
  const alerts = ['a', 'b', 'c'].map((name) => ({ name: `alert ${name}`, when: { usedPercent: 50 } }));
  await must(200, world.call('patch', `/api/v1/customer-billing/${bid}`, { alerts }));
  const { page, close } = await open(`customers/${bid}`, 'watched');
  await inTable(page, 'Alerts', 'alert a');
  await page.evaluate(`for (const name of ['alert a', 'alert b'])
    document.querySelector('button[aria-label="Remove ' + name + '"]').click()`);
  await rowOf(page, 'Alerts', 'alert b').waitFor({ state: 'detached' });
  await rowOf(page, 'Alerts', 'alert a').waitFor({ state: 'detached' });
  const { billing } = (await world.call('get', `/api/v1/customer-billing/${bid}`)).body;
  assert.equal(billing.alerts, [alerts[2]]);
  const last = page.getByRole('button', { name: 'Remove alert c' });
  await last.focus();
  await page.keyboard.press('Enter');
  await last.waitFor({ state: 'detached' });
  assert.ok(await page.evaluate(`document.activeElement.closest('#main') !== null`));
  await close();
});

test("a token of some workspaces is not offered what is the team's", async () => {
  const limited = { name: 'limited', permissions: ['audit:read', 'workspace:write', 'workspace:read'] };
  const made = await world.call('post', '/api/v1/access-token', { ...limited, workspaceIds: [workspaceId] });
  const { token } = (await must(201, Promise.resolve(made))).body.accessToken;
  const { page, close } = await signedIn(browser, world, {}, token);
  await page.getByRole('link', { name: 'Weather' }).waitFor();
  assert.is(await page.getByRole('button', { name: 'New workspace' }).count(), 0);
  await page.getByRole('link', { name: 'Weather' }).click();
  await page.getByRole('link', { name: 'Settings' }).waitFor();
  assert.is(await page.getByRole('link', { name: 'Audit log' }).count(), 0);
  await close();
});

test.run();

async function newRecord(externalMeterId: string): Promise<string> {
  const record = { workspaceId, externalMeterId, totalCredits: '100' };
  return (await must(201, world.call('post', '/api/v1/customer-billing', record))).body.billing.id;
}

// Copies of a key, as the api stores them: making each by a request would take the test's time.
async function fillKeys(id: string, count: number, name = 'Many'): Promise<void> {
  await world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object(
      'id', 'key_00' || ${name.toLowerCase()}::text || lpad(i::text, ${24 - name.length}::int, '0'), 'name', ${name}::text || ' ' || i))).*
    from api_keys k, generate_series(1, ${count}::int) i where k.id = ${id}`;
}

async function toTheEnd(page: Page): Promise<void> {
  await page.evaluate(`document.querySelector('[role=region]').scrollTo(0, 1e6)`);
}
