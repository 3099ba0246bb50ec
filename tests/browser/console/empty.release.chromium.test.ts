import * as assert from 'uvu/assert';
import { must } from '../../helpers/customers.ts';
import { inTable, requireInAllLooks } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';
import { focused, tabTo } from './helpers/keyboard.ts';

// Pages that have nothing to show, or very much.

const { test, own } = await consoleSuite('empty and long pages of the console');

test('every list of a workspace that has nothing yet says what to do, in all looks', async () => {
  const { id: keyId } = await own.customers.newKey({ name: 'Alone' });
  await own.customers.newMeter({ externalMeterId: 'alone' });
  const { id: billingId } = await own.customers.billing('alone');
  const { page, close } = await own.open('overview');
  for (const [path, name, ...texts] of [
    ['overview', 'overview', 'Nothing to do: no limit refused a call.', 'Nothing was used.', 'Not proved yet'],
    ['usage', 'usage', 'Nothing was used in this time. Verify a key with a cost'],
    ['scopes', 'scopes', 'No scope yet.'],
    ['webhooks', 'webhooks', 'No webhook yet.'],
    [`keys/${keyId}`, 'key', 'No limit over a longer window. Add one', 'No call in the last 24 hours.'],
    [
      `customers/${billingId}`,
      'customer',
      'No credits yet. Add some',
      'No schedule.',
      'No open hold.',
      'No refill yet.',
    ],
    [`why?key=${keyId}`, 'why', 'No call in the last 24 hours.'],
    ['settings', 'settings', 'No limit over a longer window. Add one'],
  ] as const) {
    await page.goto(`${own.world.api.url}/console/w/${own.workspaceId}/${path}`);
    for (const text of texts) await page.getByText(text).first().waitFor();
    await requireInAllLooks(page, `empty-${name}`);
  }
  await close();
});

test('a page of what is not there, or may not be read, tells what the api said and the id of the request', async () => {
  const { page, close } = await own.open('keys');
  const request = page.getByRole('alert').getByText(/^Request \S+$/);
  const at = (path: string) => page.goto(`${own.world.api.url}/console/w/${path}`);
  for (const path of ['keys/key_unknown', 'customers/bill_unknown', 'webhooks/hook_unknown']) {
    await at(`${own.workspaceId}/${path}`);
    await request.waitFor();
    await requireInAllLooks(page, `error-${path.replace('/', '-')}`);
  }
  for (const path of ['nonsense', '%', '%E0%A4%A', '%25', 'keys/%ff']) {
    await at(`${own.workspaceId}/${path}`);
    await page.getByRole('heading', { level: 1, name: 'Nothing here' }).waitFor();
  }
  await requireInAllLooks(page, 'error-nowhere');
  await at('ws_unknown/keys');
  await request.waitFor();
  await page.getByRole('link', { name: 'Choose another workspace' }).first().click();
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await close();
});

test('a table of 10,000 keys scrolls to its end with few rows in the page, by keyboard alone', async () => {
  const MANY = 10_000;
  const { workspace } = (await must(201, own.world.call('post', '/api/v1/workspace', { name: 'Large' }))).body;
  await must(201, own.world.call('post', '/api/v1/api-key', { workspaceId: workspace.id, name: 'Key 0' }));
  // Copies of a key, as the api stores them: making each by a request would take the test's time.
  await own.world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object(
      'id', 'key_' || lpad(i::text, 26, '0'), 'name', 'Key ' || i))).*
    from api_keys k, generate_series(1, ${MANY - 1}) i where k.workspace_id = ${workspace.id}`;
  const { page, close } = await own.open('keys');
  await page.goto(`${own.world.api.url}/console/w/${workspace.id}/keys`);
  await inTable(page, 'Keys', 'Key ');
  await tabTo(page, 'Find keys');
  await page.keyboard.press('Tab');
  assert.is(await focused(page), 'Keys');
  const rows = page.getByRole('region', { name: 'Keys' }).getByRole('row');
  const table = page.getByRole('region', { name: 'Keys' }).getByRole('table');
  let most = 0;
  while ((await table.getAttribute('aria-rowcount')) === '-1') {
    await page.keyboard.press('End');
    most = Math.max(most, await rows.count());
  }
  assert.is(await table.getAttribute('aria-rowcount'), String(MANY + 1));
  assert.ok(most < 80, `${most} rows at once`);
  await close();
});
