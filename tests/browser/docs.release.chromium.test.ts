import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, makeWorld, type World } from '../helpers/world.ts';
import { openChromium, type Page } from '../helpers/chromium.ts';

// /docs works in a browser, and loads everything from our own servers.

let world: World;
let page: Page;
const test = suite('/docs in Chromium');
test.before(async () => {
  world = await makeWorld(['verify']);
  page = await openChromium(process.env.TEST_CHROMIUM ?? '', join(process.env.TEST_FOLDER ?? '', 'chromium'));
});
test.before.each(() => {
  page.complaints.length = 0;
  page.requests.length = 0;
});
test.after(async () => {
  await page?.close();
  await world?.stop();
});

const shown = (selector: string) => `document.querySelectorAll(${JSON.stringify(selector)}).length`;
const click = (selector: string) => `document.querySelector(${JSON.stringify(selector)}).click()`;
// Sets a value as if it was typed: React notices no other way.
const type = (selector: string, text: string) => `(() => {
  const field = document.querySelector(${JSON.stringify(selector)});
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, ${JSON.stringify(text)});
  field.dispatchEvent(new Event('input', { bubbles: true }));
})()`;
const until = (selector: string) =>
  eventually(selector, async () => (await page.evaluate<number>(shown(selector))) > 0);

test('the page shows every operation, and tries one with a token', async () => {
  await page.open(`${world.api.url}/docs`);
  await until('.opblock');
  const { paths } = (await world.call('get', '/openapi.json')).body as { paths: Record<string, object> };
  const operations = Object.values(paths).flatMap((methods) => Object.keys(methods)).length;
  assert.is(await page.evaluate(shown('.opblock')), operations);

  await page.evaluate(click('.authorize'));
  await until('.auth-container input');
  await page.evaluate(type('.auth-container input', world.team.token));
  await page.evaluate(click('.auth-btn-wrapper .authorize'));
  await page.evaluate(click('.btn-done'));

  await page.evaluate(click('#operations-Workspaces-createWorkspace button'));
  await until('#operations-Workspaces-createWorkspace .execute');
  // The page fills the body with the example a moment later, and sends nothing before.
  const body = `document.querySelector('#operations-Workspaces-createWorkspace textarea')?.value ?? ''`;
  await eventually('the body is filled', async () => (await page.evaluate<string>(body)).includes('Acme'));
  await page.evaluate(click('#operations-Workspaces-createWorkspace .execute'));
  await until('.live-responses-table .response-col_status');
  const status = await page.evaluate<string>(
    `document.querySelector('.live-responses-table tbody .response-col_status').textContent`,
  );
  assert.match(status, /^201/);
  const { workspaces } = (await world.call('get', '/api/v1/workspace')).body;
  assert.is(workspaces.length, 1, 'the example of the document has made a workspace');
  assert.equal(page.complaints, []);
  assert.equal(foreign(), []);
});

test('the page of verify shows its own operations', async () => {
  await page.open(`${world.verify!.url}/docs`);
  await until('#operations-API_keys-verifyKey, [id^="operations-API"]');
  assert.equal(page.complaints, []);
  assert.equal(foreign(), []);
});

test('no other script may run on the page, and no other site may frame it', async () => {
  const { headers } = await world.call('get', '/docs', undefined, { token: null });
  const policy = headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'; /);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.not.match(policy, /unsafe|\*|https?:/);
  assert.is(headers.get('x-content-type-options'), 'nosniff');

  await page.open(`${world.api.url}/docs`);
  await until('.opblock');
  const outside = `fetch('http://localhost:1/').then(() => 'asked', () => 'refused')`;
  assert.is(await page.evaluate(outside), 'refused');
  const inline = `(() => {
    const script = document.createElement('script');
    script.textContent = 'window.ran = true';
    document.body.append(script);
    return Boolean(window.ran);
  })()`;
  assert.is(await page.evaluate(inline), false);
  for (const directive of ['connect-src', 'script-src'])
    await eventually(`${directive} is told`, async () => page.complaints.some((one) => one.includes(directive)));
});

test('files that are not part of the page get 404', async () => {
  for (const path of [
    '/docs/',
    '/docs/package.json',
    '/docs/../package.json',
    '/docs/swagger-ui.js.map',
    '/docs/toString',
  ]) {
    assert.is((await world.call('get', path)).status, 404, path);
  }
});

test.run();

// Requests to any server but ours.
function foreign(): string[] {
  const own = [world.api.url, world.verify!.url];
  return page.requests.filter(
    (url) => !url.startsWith('data:') && url !== 'about:blank' && !own.includes(new URL(url).origin),
  );
}
