import type { Browser } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../helpers/customers.ts';
import { eventually, makeWorld, outputListeners, type World } from '../../helpers/world.ts';
import { inTable, launch, visit } from '../console/helpers/browser.ts';
import { payloads, requireAllHarmless } from '../console/helpers/payloads.ts';
import { newLink, opened } from './helpers/portal.ts';

// What whoever has a link, a hostile page and whoever sits at the browser later can do: nothing more.

let world: World;
let browser: Browser;
let shown: { workspaceId: string; keyId: string; billingId: string };
let logs = '';
const listen = (text: string) => void (logs += text);
const test = suite('security of the portal');
test.before(async () => {
  outputListeners.add(listen);
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Weather' }))).body;
  const customers = makeCustomers(world, workspace.id);
  const externalMeterId = await customers.newMeter({ totalCredits: '100' });
  const metadata = { contact: 'ops@northwind.example' };
  const mine = { name: 'Northwind backend', customerId: 'northwind', externalMeterId, metadata };
  const { id: keyId } = await customers.newKey(mine);
  await customers.newKey({ name: 'Alpine club', customerId: 'alpine' });
  shown = { workspaceId: workspace.id, keyId, billingId: (await customers.billing(externalMeterId)).id };
});
test.after(async () => {
  outputListeners.delete(listen);
  await browser?.close();
  await world?.stop();
});

const link = (fields: object = {}) => newLink(world, { workspaceId: shown.workspaceId, ...fields });

const open = async (fields: object) => opened(browser, world, await link(fields));

test('a stolen link reads its customer alone: no other page, operation or customer', async () => {
  const { page, close } = await open({ billingId: shown.billingId });
  await inTable(page, 'Keys', 'Northwind backend');
  const fetched = (path: string, headers: object = {}) =>
    page.evaluate<[number, string]>(
      `fetch(${JSON.stringify(path)}, { headers: ${JSON.stringify({ 'X-Keytally-Session': '1', ...headers })} }).then(async (answer) => [answer.status, await answer.text()])`,
    );
  for (const path of [
    `/api/v1/workspace/${shown.workspaceId}`,
    `/api/v1/workspace/${shown.workspaceId}/api-keys`,
    `/api/v1/customer-billing/${shown.billingId}`,
    `/api/v1/usage?workspaceId=${shown.workspaceId}`,
    '/api/v1/access-token',
    '/console/session',
  ])
    assert.is((await fetched(path))[0], 401, path);
  for (const path of ['/api/v1/portal', '/api/v1/portal/keys', '/api/v1/portal/usage', '/api/v1/portal/billing']) {
    const [status, text] = await fetched(path);
    assert.is(status, 200, path);
    for (const foreign of ['harbour', 'Alpine', 'ops@northwind.example', 'tok_'])
      assert.not.ok(text.toLowerCase().includes(foreign.toLowerCase()), `${path} tells ${foreign}`);
  }
  await page.goto(`${world.api.url}/console`);
  await page.getByLabel('Access token').waitFor();
  await close();
});

test('a page that is open closes when its link is revoked, and shows nothing more', async () => {
  const token = await link({ permissions: ['rotate'] });
  const { page, close } = await visit(browser);
  await page.clock.install();
  await page.goto(`${world.api.url}/portal#${token}`);
  await inTable(page, 'Keys', 'Northwind backend');
  await must(200, world.call('delete', `/api/v1/link-token/${token}`));
  const ended = async () =>
    (await page.request.get(`${world.api.url}/api/v1/portal`, { headers: { 'X-Keytally-Session': '1' } })).status() ===
    401;
  await eventually('the session ends', ended, 1_000);
  await page.clock.runFor(31_000);
  await page.getByRole('alert').getByText('The link has ended').waitFor();
  assert.not.ok((await page.content()).includes('Northwind'));
  await close();
});

test('nothing secret is kept: not in the address, the history, the storage of the browser or the logs', async () => {
  const token = await link({ permissions: ['rotate'] });
  const { page, close } = await visit(browser);
  const asked: string[] = [];
  page.on('request', (request) =>
    asked.push(request.url(), request.postData() ?? '', request.headers()['referer'] ?? ''),
  );
  await page.goto(`${world.api.url}/portal#${token}`);
  await inTable(page, 'Keys', 'Northwind backend');
  await page.getByRole('button', { name: 'Rotate Northwind backend' }).click();
  await page.getByRole('button', { name: 'Rotate key' }).click();
  const secret = await page.getByLabel('Secret of the key').inputValue();
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  // A closed dialog has no role any more, a moment before it is gone.
  await eventually('the secret is gone', async () => (await page.getByLabel('Secret of the key').count()) === 0);
  const [cookie] = await page.context().cookies();
  const kept = await page.evaluate<string>(`(async () => JSON.stringify([
    location.href, document.cookie, document.referrer, { ...localStorage }, { ...sessionStorage }, history.state, history.length,
    await indexedDB.databases(), await caches.keys(), performance.getEntriesByType('resource').map(({ name }) => name),
    document.documentElement.outerHTML, [...document.querySelectorAll('input')].map(({ value }) => value),
  ]))()`);
  assert.match(logs, '/api/v1/portal/keys');
  for (const one of [token, secret, cookie!.value]) {
    assert.not.ok(kept.includes(one));
    assert.not.ok(logs.includes(one));
  }
  assert.not.ok(asked.join('\n').includes(token), 'it goes in a header alone');
  assert.equal([cookie!.name, cookie!.httpOnly, cookie!.sameSite], ['keytally-portal', true, 'Strict']);
  await page.goto(`${world.api.url}/docs`);
  await page.goBack();
  await inTable(page, 'Keys', 'Northwind backend');
  assert.is(page.url(), `${world.api.url}/portal`);
  await close();
});

test('no name that a stranger chose becomes an element, and nobody frames the page', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Hostile' }))).body;
  const customers = makeCustomers(world, workspace.id);
  const customerId = payloads[0]!;
  const meter = await customers.newMeter({ totalCredits: '100' });
  const { id: billingId } = await customers.billing(meter);
  for (const [i, name] of payloads.entries()) {
    await customers.newKey({ name, customerId, ...(i === 0 && { externalMeterId: meter }) });
    const correction = { amount: '0.1', usageName: name, reason: name };
    for (const [path, body] of Object.entries({ grant: { credits: '1', name }, adjustment: correction })) {
      const headers = { 'Idempotency-Key': `hostile-${path}-${i}` };
      await must(201, world.call('post', `/api/v1/customer-billing/${billingId}/${path}`, body, { headers }));
    }
  }
  const { key } = await customers.newKey({ name: 'uses', customerId, externalMeterId: meter });
  for (const usageName of payloads) await must(200, customers.verify({ key, billing: { usage: '0.1', usageName } }));
  const hostile = await link({ workspaceId: workspace.id, customerId, billingId, permissions: ['rotate'] });
  await eventually('the books have them', async () => {
    const { data } = (await world.call('get', `/api/v1/usage/${billingId}`)).body;
    const sum = data.reduce(
      (all: number, row: { totalBillingUsage: string }) => all + Number(row.totalBillingUsage),
      0,
    );
    return data.length === payloads.length && sum.toFixed(1) === '10.0';
  });
  const { page, complaints, close } = await visit(browser);
  await page.goto(`${world.api.url}/portal#${hostile}`);
  for (const table of ['Keys', 'Grants', 'Usage by day', 'Movements']) await inTable(page, table, payloads[1]!);
  await requireAllHarmless(page, 'the portal');
  assert.equal(complaints, []);

  const response = await page.request.get(`${world.api.url}/portal`);
  assert.is(response.headers()['x-frame-options'], 'DENY');
  assert.match(response.headers()['content-security-policy']!, "frame-ancestors 'none'");
  await page.goto(`${world.api.url}/docs`);
  await page.setContent(`<iframe src="${world.api.url}/portal"></iframe>`, { waitUntil: 'domcontentloaded' });
  await eventually('the frame is refused', () =>
    page.evaluate<boolean>(`document.querySelector('iframe')?.contentDocument === null`),
  );
  await close();
});

test('a page of another origin neither reads nor changes anything with the session', async () => {
  const { page, close } = await open({ permissions: ['rotate'] });
  await inTable(page, 'Keys', 'Northwind backend');
  const { port } = new URL(world.api.url);
  // Another origin on the same site: the strictest cookie goes along.
  await page.goto(`http://localhost:${port}/portal`);
  for (const target of [world.api.url, `http://localhost:${port}`])
    for (const [method, path] of [
      ['GET', '/api/v1/portal/keys'],
      ['POST', `/api/v1/portal/key/${shown.keyId}/rotate`],
    ]) {
      const headers = `{ 'Content-Type': 'application/json', 'X-Keytally-Session': '1' }`;
      const code = `fetch('${target}${path}', { method: '${method}', credentials: 'include', headers: ${headers} }).then(({ status }) => status, () => 'refused')`;
      assert.ok([401, 'refused'].includes(await page.evaluate<number | string>(code)), `${method} ${target}`);
    }
  await close();
});

test.run();
