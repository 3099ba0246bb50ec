import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../helpers/customers.ts';
import { eventually, makeWorld, outputListeners, type World } from '../../helpers/world.ts';
import { inTable, launch, rowOf, settled, signedIn, signIn, visit } from './helpers/browser.ts';
import { payloads, requireAllHarmless, requireHarmless } from './helpers/payloads.ts';

// What a hostile customer, a hostile page and whoever sits at the browser later can do: nothing.

let world: World;
let browser: Browser;
let workspaceId: string;
let logs = '';
const listen = (text: string) => void (logs += text);
const test = suite('security of the console');
test.before(async () => {
  outputListeners.add(listen);
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  workspaceId = await newWorkspace('Weather');
});
test.after(async () => {
  outputListeners.delete(listen);
  await browser?.close();
  await world?.stop();
});

test('no text that a stranger chose becomes an element, on any page', async () => {
  assert.is(new Set(payloads).size, 50);
  const hostile = await makeHostile();
  const { page, complaints, close } = await signedIn(browser, world);
  const at = async (path: string, until: string) => {
    await page.goto(`${world.api.url}/console${path}`);
    await page.getByText(until).first().waitFor();
    await settled(page);
    await requireHarmless(page, path);
  };
  const base = `/w/${hostile.workspaceId}`;
  const lists = ['keys', 'customers', 'scopes', 'tokens', 'usage', `customers/${hostile.billingId}`];
  for (const path of ['', ...lists.map((one) => `${base}/${one}`)]) {
    await at(path, payloads[0]!);
    await requireAllHarmless(page, path);
  }
  await at(`${base}/keys/${hostile.keyId}`, payloads[1]!);
  await at(`${base}/customers/${hostile.billingId}`, payloads[2]!);
  await page.getByRole('button', { name: 'Portal link' }).click();
  const dialog = page.getByRole('dialog');
  assert.is(await dialog.getByLabel('Customer', { exact: true }).inputValue(), payloads[3]);
  await dialog.getByRole('button', { name: 'Make the link' }).click();
  await dialog.getByText(payloads[3]!).waitFor();
  await requireHarmless(page, 'a portal link');
  await at(`${base}/overview`, payloads[0]!);
  await requireAllHarmless(page, 'overview');
  await at(`${base}/usage`, payloads[0]!);
  for (const group of ['Meter', 'Usage']) await page.getByRole('checkbox', { name: group }).uncheck();
  await page.getByRole('checkbox', { name: 'Route' }).check();
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByRole('columnheader', { name: 'Route' }).waitFor();
  await page.getByRole('cell', { name: payloads[0]! }).first().waitFor();
  await settled(page);
  await requireAllHarmless(page, 'usage by route');
  await at(`${base}/why?key=${hostile.keyId}`, payloads[1]!);
  await requireAllHarmless(page, 'why');
  await at(`${base}/webhooks`, payloads[0]!);
  await at(`${base}/webhooks/${hostile.webhookId}`, payloads[0]!);
  await at(`${base}/settings`, payloads[0]!);
  await at(`${base}/audit-log`, 'POST /api-key');
  for (const id of hostile.ids) {
    await page.getByLabel('Id of what was changed').fill(id);
    await page.getByRole('button', { name: 'Find' }).click();
    await inTable(page, 'Audit log', id);
    await rowOf(page, 'Audit log', id).first().getByRole('button').click();
    await page.getByRole('dialog').getByText('data-x').first().waitFor();
    await requireHarmless(page, id);
    await page.keyboard.press('Escape');
  }
  const encoded = encodeURIComponent(payloads[9]!);
  for (const path of [
    `/w/${encoded}/keys`,
    `${base}/keys/${encoded}`,
    `${base}/customers/${encoded}`,
    `${base}/${encoded}`,
  ]) {
    await page.goto(`${world.api.url}/console${path}?${encoded}#${encoded}`);
    await settled(page);
    await requireHarmless(page, path);
  }
  assert.equal(complaints, []);
  await close();
});

test('no script runs on the page but its own, it speaks with nobody else, and nobody frames it', async () => {
  const { page, complaints, close } = await visit(browser);
  await page.goto(`${world.api.url}/console`);
  await page.getByLabel('Access token').waitFor();
  const inline = `(() => { const one = document.createElement('script'); one.textContent = 'window.ran = true'; document.body.append(one); return Boolean(window.ran); })()`;
  assert.is(await page.evaluate(inline), false);
  assert.is(await page.evaluate(`fetch('http://localhost:1/').then(() => 'asked', () => 'refused')`), 'refused');
  for (const directive of ['script-src', 'connect-src'])
    await eventually(`${directive} is told`, async () => complaints.some((one) => one.includes(directive)));

  const { page: other, close: closeOther } = await visit(browser);
  await other.goto(`${world.api.url}/docs`);
  await other.setContent(`<iframe src="${world.api.url}/console"></iframe>`, { waitUntil: 'domcontentloaded' });
  await eventually('the frame is refused', () =>
    other.evaluate<boolean>(`document.querySelector('iframe')?.contentDocument === null`),
  );
  await closeOther();
  await close();
});

test('a page of another origin changes nothing with the session', async () => {
  const { page, close } = await signedIn(browser, world);
  const { port } = new URL(world.api.url);
  // Another origin on the same site: the strictest cookie goes along.
  const elsewhere = `http://localhost:${port}`;
  await page.goto(`${elsewhere}/console`);
  for (const target of [world.api.url, elsewhere]) {
    const post = (headers: string) =>
      `fetch('${target}/api/v1/workspace', { method: 'POST', credentials: 'include', body: '{"name":"forged"}', headers: ${headers} }).then(({ status }) => status, () => 'refused')`;
    assert.ok(
      [401, 'refused'].includes(await page.evaluate<number | string>(post(`{ 'Content-Type': 'application/json' }`))),
    );
    assert.ok(
      [401, 'refused'].includes(
        await page.evaluate<number | string>(post(`{ 'Content-Type': 'application/json', 'X-Keytally-Session': '1' }`)),
      ),
    );
  }
  const { workspaces } = (await world.call('get', '/api/v1/workspace')).body;
  assert.not.ok(workspaces.some(({ name }: { name: string }) => name === 'forged'));
  await close();
});

test('the page of a session whose token was revoked asks to sign in, and shows nothing more', async () => {
  const { accessToken } = (
    await must(
      201,
      world.call('post', '/api/v1/access-token', { name: 'leaver', permissions: ['workspace:read', 'key:read'] }),
    )
  ).body;
  const { page, close } = await visit(browser);
  await signIn(page, world.api.url, accessToken.token);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/keys`);
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
  await must(200, world.call('delete', `/api/v1/access-token/${accessToken.id}`));
  await eventually(
    'the session ends',
    async () =>
      (
        await page.request.get(`${world.api.url}/console/session`, { headers: { 'X-Keytally-Session': '1' } })
      ).status() === 401,
    1_000,
  );
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByLabel('Access token').waitFor();
  assert.is(await page.getByRole('navigation', { name: 'Pages' }).count(), 0);
  await close();
});

test('no secret is kept: not in the address, the history, the storage of the browser or the logs', async () => {
  const { page, close } = await signedIn(browser, world);
  const { id } = (
    await must(201, world.call('post', '/api/v1/customer-billing', { workspaceId, externalMeterId: 'linked' }))
  ).body.billing;
  await page.goto(`${world.api.url}/console/w/${workspaceId}/customers/${id}`);
  await page.getByRole('button', { name: 'Portal link' }).click();
  await page.getByLabel('Customer', { exact: true }).fill('cus_linked');
  await page.getByRole('button', { name: 'Make the link' }).click();
  const [, link = ''] = (await page.getByLabel('Portal link', { exact: true }).inputValue()).split('#');
  assert.match(link, /^lt_/);
  await closeSecret(page, 'Portal link');
  assert.not.ok((await page.content()).includes(link));
  await page.goto(`${world.api.url}/console/w/${workspaceId}/keys`);
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Secret');
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  const secret = await page.getByLabel('Secret of the key').inputValue();
  await closeSecret(page, 'Secret of the key');
  await inTable(page, 'Keys', 'Secret');
  const [cookie] = await page.context().cookies();
  const secrets = [world.team.token, secret, cookie!.value, link];
  const kept = await page.evaluate<string>(`(async () => JSON.stringify([
    location.href, document.cookie, { ...localStorage }, { ...sessionStorage }, history.state,
    await indexedDB.databases(), await caches.keys(), performance.getEntries().map(({ name }) => name),
    document.documentElement.outerHTML, [...document.querySelectorAll('input')].map(({ value }) => value),
  ]))()`);
  // Its path has the token.
  await must(200, world.call('delete', `/api/v1/link-token/${link}`));
  await eventually('it is logged', async () => logs.includes('/api/v1/link-token/'));
  assert.match(logs, '/api/v1/api-key');
  for (const one of secrets) {
    assert.not.ok(kept.includes(one));
    assert.not.ok(logs.includes(one));
  }
  assert.equal([cookie!.httpOnly, cookie!.sameSite], [true, 'Strict']);
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'linked' }).waitFor();
  for (const one of [secret, link]) assert.not.ok((await page.content()).includes(one));
  await close();
});

test.run();

async function closeSecret(page: Page, label: string): Promise<void> {
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  // A closed dialog has no role any more, a moment before it is gone.
  await eventually('the secret is gone', async () => (await page.getByLabel(label, { exact: true }).count()) === 0);
}

async function newWorkspace(name: string): Promise<string> {
  return (await must(201, world.call('post', '/api/v1/workspace', { name }))).body.workspace.id;
}

function sumOf(rows: Record<string, unknown>[], field: string): number {
  return rows.reduce((sum, row) => sum + Number(row[field]), 0);
}

// A workspace with a payload in every field that takes text, and every payload in some field of every page.
async function makeHostile() {
  const workspaceId = await newWorkspace(payloads[0]!);
  const at = (i: number) => payloads[i % payloads.length]!;
  const api = async (method: string, path: string, body: object, i = 0) =>
    (
      await world.call(method, path, body, {
        headers: { 'Idempotency-Key': `hostile-${path}-${i}`.slice(-120), 'User-Agent': encodeURI(at(i)) },
      })
    ).body;
  const limits = [0, 1, 2, 3].map((i) => ({
    name: at(i),
    unit: 'credits',
    limit: '1000',
    per: 'day',
    usageName: at(i + 4),
  }));
  await api('patch', `/api/v1/workspace/${workspaceId}`, { defaultLimits: limits });
  let [billingId, scopeId, grantId] = ['', '', ''];
  for (let i = 0; i < payloads.length; i++) {
    const { scope } = await api(
      'post',
      `/api/v1/workspace/${workspaceId}/scope`,
      { name: at(i), description: at(i + 1), representation: `s${i}` },
      i,
    );
    await api(
      'post',
      '/api/v1/api-key',
      { workspaceId, name: at(i), customerId: at(i + 1), externalMeterId: at(i) },
      i,
    );
    const made = await api(
      'post',
      '/api/v1/customer-billing',
      { workspaceId, externalMeterId: at(i), totalCredits: '100' },
      i,
    );
    if (i === 2) [billingId, scopeId] = [made.billing.id, scope.id];
    await newWorkspace(at(i));
    await api(
      'post',
      '/api/v1/access-token',
      { name: at(i), permissions: ['key:read'], workspaceIds: [workspaceId] },
      i,
    );
  }
  for (let i = 0; i < payloads.length; i++) {
    const made = await api('post', `/api/v1/customer-billing/${billingId}/grant`, { credits: '1', name: at(i) }, i);
    grantId = made.grant.id;
    const correction = { amount: '0.1', usageName: at(i), reason: at(i + 1) };
    await api('post', `/api/v1/customer-billing/${billingId}/adjustment`, correction, i);
  }
  await api('post', `/api/v1/customer-billing/${billingId}/grant-schedule`, {
    credits: '1',
    name: at(7),
    every: 'day',
    timezone: 'UTC',
  });
  const alerts = [0, 1, 2, 3].map((i) => ({ name: at(i), when: { usedPercent: i + 1 } }));
  await api('patch', `/api/v1/customer-billing/${billingId}`, { limits, alerts });
  const customers = makeCustomers(world, workspaceId);
  const { apiKey } = await api(
    'post',
    '/api/v1/api-key',
    { workspaceId, name: payloads[1], externalMeterId: payloads[2], metadata: { [payloads[3]!]: payloads } },
    99,
  );
  await Promise.all(
    payloads.map((usageName) =>
      must(200, customers.verify({ key: apiKey.key, route: usageName, billing: { usage: '0.1', usageName } })),
    ),
  );
  await must(
    200,
    customers.verify({ key: apiKey.key, billing: { usage: '1', usageName: at(9), hold: { expiresIn: 3_600 } } }),
  );
  await eventually('the books have them', async () => {
    const { data } = (await world.call('get', `/api/v1/usage/${billingId}`)).body;
    return sumOf(data, 'events') === payloads.length && sumOf(data, 'totalBillingUsage').toFixed(1) === '10.0';
  });
  const { webhook } = await api('post', '/api/v1/webhook', {
    workspaceId,
    url: `https://hooks.example.com/${encodeURIComponent(payloads[9]!)}`,
    events: ['key.created'],
    description: payloads[0],
  });
  return {
    workspaceId,
    billingId,
    webhookId: webhook.id as string,
    keyId: apiKey.id as string,
    ids: [apiKey.id as string, scopeId, grantId],
  };
}
