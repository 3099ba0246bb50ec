import * as assert from 'uvu/assert';
import { visit } from './console/helpers/browser.ts';
import { consoleSuite } from './console/helpers/suite.ts';

// /docs works in a browser, and loads everything from our own servers.

const { test, own } = await consoleSuite('/docs in Chromium');

test('the page shows every operation, tries one with a token, and asks nobody else', async () => {
  const { page, complaints } = await visit(own.browser);
  const answer = await page.goto(`${own.world.api.url}/docs`);
  assert.match(answer!.headers()['content-security-policy']!, /^default-src 'none'.*frame-ancestors 'none'/);
  await page.locator('.opblock').first().waitFor();
  const { paths } = (await own.world.call('get', '/openapi.json')).body as { paths: Record<string, object> };
  const operations = Object.values(paths).flatMap((methods) => Object.keys(methods)).length;
  assert.is(await page.locator('.opblock').count(), operations);

  await page.locator('.authorize').first().click();
  await page.locator('#auth-bearer-value').fill(own.world.team.token);
  await page.locator('.auth-btn-wrapper .authorize').first().click();
  await page.locator('.btn-done').first().click();
  const operation = page.locator('#operations-Workspaces-createWorkspace');
  await operation.locator('button').first().click();
  // The page fills the body with the example a moment later, and sends nothing before.
  await operation.locator('textarea', { hasText: 'Acme' }).waitFor();
  await operation.locator('.execute').click();
  await operation.locator('.live-responses-table tbody .response-col_status', { hasText: '201' }).waitFor();
  const { workspaces } = (await own.world.call('get', '/api/v1/workspace')).body;
  assert.is(workspaces.length, 2, 'the example of the document has made a workspace');
  assert.equal(complaints, []);
});
