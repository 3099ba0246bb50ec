import * as assert from 'uvu/assert';
import { must } from '../../helpers/customers.ts';
import { eventually, outputListeners } from '../../helpers/world.ts';
import { inTable, rowOf, settled, signedIn } from './helpers/browser.ts';
import { makeHostile, payloads, requireAllHarmless, requireHarmless } from './helpers/payloads.ts';
import { consoleSuite } from './helpers/suite.ts';

// What a hostile customer and whoever sits at the browser later can do: nothing.

const { test, own } = await consoleSuite('security of the console');
let logs = '';
const listen = (text: string) => void (logs += text);
outputListeners.add(listen);
test.after(() => void outputListeners.delete(listen));

test('no text that a stranger chose becomes an element, on any page', async () => {
  const hostile = await makeHostile(own.world);
  const { page, complaints, close } = await signedIn(own.browser, own.world);
  const at = async (path: string, until: string, all = false) => {
    await page.goto(`${own.world.api.url}/console${path}`);
    await page.getByText(until).first().waitFor();
    await settled(page);
    await (all ? requireAllHarmless : requireHarmless)(page, path);
  };
  const base = `/w/${hostile.workspaceId}`;
  const lists = ['keys', 'customers', 'scopes', 'tokens', 'usage', 'overview', `customers/${hostile.billingId}`];
  for (const path of ['', ...lists.map((one) => `${base}/${one}`)]) await at(path, payloads[0]!, true);
  await at(`${base}/why?key=${hostile.keyId}`, payloads[1]!, true);
  await at(`${base}/keys/${hostile.keyId}`, payloads[1]!);
  for (const path of ['webhooks', `webhooks/${hostile.webhookId}`, 'settings'])
    await at(`${base}/${path}`, payloads[0]!);
  await at(`${base}/customers/${hostile.billingId}`, payloads[2]!);
  await page.getByRole('button', { name: 'Portal link' }).click();
  const dialog = page.getByRole('dialog');
  assert.is(await dialog.getByLabel('Customer', { exact: true }).inputValue(), payloads[3]);
  await dialog.getByRole('button', { name: 'Make the link' }).click();
  await dialog.getByText(payloads[3]!).waitFor();
  await requireHarmless(page, 'a portal link');
  await at(`${base}/audit-log`, 'POST /webhook');
  for (const id of hostile.ids) {
    await page.getByLabel('Id of what was changed').fill(id);
    await page.getByRole('button', { name: 'Find' }).click();
    await inTable(page, 'Audit log', id);
    await rowOf(page, 'Audit log', id).first().getByRole('button').click();
    await dialog.getByText('data-x').first().waitFor();
    await requireHarmless(page, id);
    await page.keyboard.press('Escape');
  }
  const encoded = encodeURIComponent(payloads[3]!);
  for (const path of [`/w/${encoded}/keys`, `${base}/keys/${encoded}`, `${base}/${encoded}`]) {
    await page.goto(`${own.world.api.url}/console${path}?${encoded}#${encoded}`);
    await settled(page);
    await requireHarmless(page, path);
  }
  assert.equal(complaints, []);
  await close();
});

test('no secret is kept: not in the address, the history, the storage of the browser or the logs', async () => {
  await own.customers.newMeter({ externalMeterId: 'linked' });
  const { page, close } = await own.open(`customers/${(await own.customers.billing('linked')).id}`);
  const shownOnce = async (label: string, submit: string) => {
    await page.getByRole('dialog').getByRole('button', { name: submit }).click();
    const field = page.getByLabel(label, { exact: true });
    const secret = await field.inputValue();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    // A closed dialog has no role any more, a moment before it is gone.
    await field.waitFor({ state: 'detached' });
    assert.not.ok((await page.content()).includes(secret));
    return secret;
  };
  await page.getByRole('button', { name: 'Portal link' }).click();
  await page.getByLabel('Customer', { exact: true }).fill('cus_linked');
  const [, link = ''] = (await shownOnce('Portal link', 'Make the link')).split('#');
  assert.match(link, /^lt_/);
  await page.goto(`${own.world.api.url}/console/w/${own.workspaceId}/keys`);
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Secret');
  const secret = await shownOnce('Secret of the key', 'Create key');
  const [cookie] = await page.context().cookies();
  const kept = await page.evaluate<string>(`(async () => JSON.stringify([
    location.href, document.cookie, { ...localStorage }, { ...sessionStorage }, history.state,
    await indexedDB.databases(), await caches.keys(), performance.getEntries().map(({ name }) => name),
    document.documentElement.outerHTML, [...document.querySelectorAll('input')].map(({ value }) => value),
  ]))()`);
  // Its path has the token.
  await must(200, own.world.call('delete', `/api/v1/link-token/${link}`));
  await eventually('it is logged', async () => logs.includes('/api/v1/link-token/'));
  assert.match(logs, '/api/v1/api-key');
  for (const one of [own.world.team.token, secret, cookie!.value, link])
    assert.equal([kept.includes(one), logs.includes(one)], [false, false]);
  assert.equal([cookie!.httpOnly, cookie!.sameSite], [true, 'Strict']);
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'linked' }).waitFor();
  for (const one of [secret, link]) assert.not.ok((await page.content()).includes(one));
  await close();
});
