import * as assert from 'uvu/assert';
import { must } from '../../helpers/customers.ts';
import { eventually, outputListeners } from '../../helpers/world.ts';
import { inTable, visit } from '../console/helpers/browser.ts';
import { makeHostile, payloads, requireAllHarmless } from '../console/helpers/payloads.ts';
import { consoleSuite } from '../console/helpers/suite.ts';
import { makeLinks } from './helpers/portal.ts';

// What whoever has a link and whoever sits at the browser later can do: nothing more.

const { test, own } = await consoleSuite('security of the portal');
const { link, go, open } = makeLinks(own, own.workspaceId);
let logs = '';
const listen = (text: string) => void (logs += text);
outputListeners.add(listen);
await own.customers.newKey({ name: 'Northwind backend', customerId: 'northwind' });
test.after(() => void outputListeners.delete(listen));

test('a page that is open closes when its link is revoked, and shows nothing more', async () => {
  const token = await link({ permissions: ['rotate'] });
  const { page, close } = await visit(own.browser);
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
  await close();
});

test('nothing secret is kept: not in the address, the history, the storage of the browser or the logs', async () => {
  const token = await link({ permissions: ['rotate'] });
  const { page, close } = await visit(own.browser);
  const asked: string[] = [];
  page.on('request', (one) => asked.push(one.url(), one.postData() ?? '', one.headers()['referer'] ?? ''));
  await go(page, token);
  await page.getByRole('button', { name: 'Rotate Northwind backend' }).click();
  await page.getByRole('button', { name: 'Rotate key' }).click();
  const secret = await page.getByLabel('Secret of the key').inputValue();
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  // A closed dialog has no role any more, a moment before it is gone.
  await page.getByLabel('Secret of the key').waitFor({ state: 'detached' });
  const [cookie] = await page.context().cookies();
  const kept = await page.evaluate<string>(`(async () => JSON.stringify([
    location.href, document.cookie, document.referrer, { ...localStorage }, { ...sessionStorage }, history.state,
    await indexedDB.databases(), await caches.keys(), performance.getEntriesByType('resource').map(({ name }) => name),
    document.documentElement.outerHTML, [...document.querySelectorAll('input')].map(({ value }) => value),
  ]))()`);
  assert.match(logs, '/api/v1/portal/keys');
  for (const one of [token, secret, cookie!.value])
    assert.equal([kept.includes(one), logs.includes(one)], [false, false]);
  assert.not.ok(asked.join('\n').includes(token), 'it goes in a header alone');
  assert.equal([cookie!.name, cookie!.httpOnly, cookie!.sameSite], ['keytally-portal', true, 'Strict']);
  await page.goto(`${own.world.api.url}/docs`);
  await page.goBack();
  await inTable(page, 'Keys', 'Northwind backend');
  assert.is(page.url(), `${own.world.api.url}/portal`);
  await close();
});

test('no name that a stranger chose becomes an element', async () => {
  const hostile = await makeHostile(own.world);
  const { page, complaints, close } = await visit(own.browser);
  await open(page, { workspaceId: hostile.workspaceId, billingId: hostile.billingId, customerId: payloads[3] });
  for (const table of ['Keys', 'Grants', 'Usage by day', 'Movements']) await inTable(page, table, payloads[1]!);
  await requireAllHarmless(page, 'the portal');
  assert.equal(complaints, []);
  await close();
});
