import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../helpers/customers.ts';
import { eventually, makeWorld, outputListeners, type World } from '../../helpers/world.ts';
import { inTable, launch, requireAccessible, requireFits, rowOf, settled, visit } from '../console/helpers/browser.ts';
import { makeShown, type Shown } from '../console/helpers/data.ts';
import { payloads } from '../console/helpers/payloads.ts';

// What a customer does who has opened a link, and what nobody can do with one.

const TITLE = 'Your API keys and usage';
// PICTURES names a folder that keeps the wide pictures: docs/images/portal. The narrow ones are for whoever looks at a run.
const narrow = join(process.env.TEST_FOLDER ?? '', 'pictures');
const pictures = process.env.PICTURES ?? narrow;
let world: World;
let browser: Browser;
let shown: Shown;
let logs = '';
const listen = (text: string) => void (logs += text);
const test = suite('the portal in a browser');
test.before(async () => {
  outputListeners.add(listen);
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  shown = await makeShown(world);
  for (const folder of [pictures, narrow]) mkdirSync(folder, { recursive: true });
});
test.after(async () => {
  outputListeners.delete(listen);
  await browser?.close();
  await world?.stop();
});

test('a customer finds the own keys, balance by grant, usage by day and the statement, with a file of it', async () => {
  const { page, complaints, close } = await opened({ billingId: shown.billingId });
  await inTable(page, 'Keys', 'Northwind backend');
  assert.is(await rowOf(page, 'Keys', 'Harbour office').count(), 0, "no other customer's");
  assert.is(await page.getByRole('button', { name: /^Rotate/ }).count(), 0, 'the link does not permit it');
  await page.getByText('credits available').waitFor();
  await inTable(page, 'Grants', 'trial');
  await inTable(page, 'Usage by day', 'archive');
  const month = page.getByLabel('Month');
  await inTable(page, 'Movements', 'usage: forecast');
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download the statement' }).click();
  assert.match((await download).suggestedFilename(), /^statement-\d{4}-\d\d-portal\.csv$/);
  await month.fill('2020-01');
  await page.getByText('Nothing moved in this month.').or(page.getByRole('alert')).first().waitFor();
  assert.equal(complaints, []);
  await close();
});

test('a customer rotates a key by keyboard alone: the new secret is shown once and verifies', async () => {
  const { page, close } = await opened({ permissions: ['rotate'] });
  await inTable(page, 'Keys', 'Northwind backend');
  await press(page, 'Rotate Northwind backend');
  const form = page.getByRole('dialog', { name: 'Rotate the key' });
  await form.waitFor();
  await press(page, 'Rotate key');
  const made = page.getByRole('dialog', { name: 'The new secret' });
  const secret = await made.getByLabel('Secret of the key').inputValue();
  assert.is((await makeCustomers(world, shown.workspaceId).verify({ key: secret })).body.status, 'VALID');
  await page.keyboard.press('Escape');
  await made.waitFor({ state: 'detached' });
  assert.is(await focused(page), 'Rotate Northwind backend');
  assert.not.ok((await page.content()).includes(secret));
  await press(page, 'Leave');
  await page.getByText('You have left.').waitFor();
  await page.reload();
  await page.getByRole('alert').getByText('The link has ended').waitFor();
  await close();
});

test('a customer without keys and usage is told what to do; without a balance none is shown', async () => {
  const { page, close } = await opened({ customerId: 'nobody yet' });
  await page.getByText('You have no API key yet.').waitFor();
  await page.getByText('Nothing was used in these days.').waitFor();
  assert.is(await page.getByRole('heading', { name: 'Balance' }).count(), 0);
  assert.is(await page.getByRole('heading', { name: 'Statement' }).count(), 0);
  await close();
});

test('an error shows what the api said and the id of the request, and another try goes on with the same link', async () => {
  const { page, close } = await visit(browser);
  const token = await newLink();
  await page.route('**/portal/session', (route) => route.abort());
  await page.goto(`${world.api.url}/portal#${token}`);
  await page.getByRole('alert').getByText('cannot be reached').waitFor();
  assert.is(page.url(), `${world.api.url}/portal`);
  await page.unroute('**/portal/session');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { level: 1, name: TITLE }).waitFor();
  await inTable(page, 'Keys', 'Northwind backend');
  // A second link in the same window: only the fragment changes.
  const other = await newLink({ customerId: 'harbour' });
  await page.evaluate(`location.hash = '${other}'`);
  await inTable(page, 'Keys', 'Harbour office');
  assert.is(page.url(), `${world.api.url}/portal`);
  await page.goto('about:blank');
  await page.goto(`${world.api.url}/portal#${other.slice(0, -1)}`);
  const told = page.getByRole('alert');
  await told.getByText('The link has ended, or was never valid').waitFor();
  assert.match(await told.innerText(), /Request \S+/);
  await close();
});

for (const colorScheme of ['light', 'dark'] as const)
  test(`the portal in ${colorScheme} fits its window and keeps to WCAG 2.2 AA, opened, empty, closed and asking`, async () => {
    const { page, complaints, close } = await visit(browser, { colorScheme });
    const look = async (name: string) => {
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 800 });
        await settled(page);
        await requireAccessible(page, `${name}, ${colorScheme}, ${width} px`);
        await requireFits(page, `${name} at ${width} px`);
        const isWide = width === 1280;
        const path = join(isWide ? pictures : narrow, `${name}-${colorScheme}${isWide ? '' : '-narrow'}.png`);
        await page.screenshot({ path, fullPage: true });
      }
      await page.setViewportSize({ width: 1280, height: 800 });
    };
    const go = async (fields: object) => {
      await page.goto('about:blank');
      await page.goto(`${world.api.url}/portal#${await newLink(fields)}`);
      await page.getByRole('heading', { level: 1, name: TITLE }).waitFor();
    };
    await go({ billingId: shown.billingId, permissions: ['rotate'] });
    await inTable(page, 'Movements', 'usage: forecast');
    await look('portal');
    await page.getByRole('button', { name: 'Rotate Northwind backend' }).click();
    await page.getByRole('dialog', { name: 'Rotate the key' }).waitFor();
    await look('portal-rotate');
    await go({ customerId: 'A customer whose name has neither end nor mercy '.repeat(5) });
    await page.getByText('You have no API key yet.').waitFor();
    await look('portal-empty');
    await page.getByRole('button', { name: 'Leave' }).click();
    await page.getByText('You have left.').waitFor();
    await page.reload();
    await page.getByRole('alert').waitFor();
    await look('portal-ended');
    assert.equal(complaints, []);
    await close();
  });

test('a stolen link reads its customer alone: no other page, operation or customer', async () => {
  const { page, close } = await opened({ billingId: shown.billingId });
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
  for (const path of ['/api/v1/portal', '/api/v1/portal/keys', '/api/v1/portal/usage', '/api/v1/portal/statement']) {
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
  const token = await newLink({ permissions: ['rotate'] });
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
  const token = await newLink({ permissions: ['rotate'] });
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
  await page.getByRole('dialog').waitFor({ state: 'detached' });
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
    const headers = { 'Idempotency-Key': `hostile-${i}` };
    await must(
      201,
      world.call('post', `/api/v1/customer-billing/${billingId}/grant`, { credits: '1', name }, { headers }),
    );
  }
  const { key } = await customers.newKey({ name: 'uses', customerId, externalMeterId: meter });
  for (const usageName of payloads) await must(200, customers.verify({ key, billing: { usage: '0.1', usageName } }));
  const link = await newLink({ workspaceId: workspace.id, customerId, billingId, permissions: ['rotate'] });
  await eventually('the books have them', async () => {
    const { data } = (await world.call('get', `/api/v1/usage/${billingId}`)).body;
    return data.length === payloads.length;
  });
  const { page, complaints, close } = await visit(browser);
  await page.goto(`${world.api.url}/portal#${link}`);
  for (const table of ['Keys', 'Grants', 'Usage by day', 'Movements']) {
    const region = page.getByRole('region', { name: table, exact: true });
    await region.getByText(payloads[1]!).first().waitFor();
    await requireHarmless(page, table);
    await region.evaluate('(region) => { region.scrollTop = region.scrollHeight; }');
    await region.getByText(payloads.at(-1)!).first().waitFor();
    await requireHarmless(page, table);
  }
  assert.equal(complaints, []);

  const response = await page.request.get(`${world.api.url}/portal`);
  assert.is(response.headers()['x-frame-options'], 'DENY');
  assert.match(response.headers()['content-security-policy']!, "frame-ancestors 'none'");
  await page.goto(`${world.api.url}/docs`);
  await page.setContent(`<iframe src="${world.api.url}/portal"></iframe>`);
  await eventually('the frame is refused', () =>
    page.evaluate<boolean>(
      `(() => { try { return document.querySelector('iframe').contentDocument === null; } catch { return true; } })()`,
    ),
  );
  await close();
});

test('a page of another origin neither reads nor changes anything with the session', async () => {
  const { page, close } = await opened({ permissions: ['rotate'] });
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

async function newLink(fields: object = {}): Promise<string> {
  const body = { workspaceId: shown.workspaceId, customerId: 'northwind', ...fields };
  return (await must(201, world.call('post', '/api/v1/link-token', body))).body.linkToken.token;
}

/** Opens a link as its customer does. */
async function opened(fields: object) {
  const visited = await visit(browser);
  await visited.page.goto(`${world.api.url}/portal#${await newLink(fields)}`);
  await visited.page.getByRole('heading', { level: 1, name: TITLE }).waitFor();
  return visited;
}

async function requireHarmless(page: Page, where: string): Promise<void> {
  const found = await page.evaluate<string[]>(
    `[...document.querySelectorAll('[data-x], script:not([src]), iframe, object, embed, base, a[href^="javascript"], [srcdoc]')].map(({ outerHTML }) => outerHTML)`,
  );
  assert.equal(found, [], where);
}

const focused = (page: Page) =>
  page.evaluate<string>(
    `(() => { const at = document.activeElement; return (at?.getAttribute('aria-label') ?? at?.innerText ?? '').trim(); })()`,
  );

/** Presses Tab until the button of this name has the focus, and then Enter. */
async function press(page: Page, name: string): Promise<void> {
  for (let i = 0; i < 60; i++) {
    if ((await focused(page)) === name) return page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
  }
  assert.unreachable(`Tab does not lead to ${name}`);
}
