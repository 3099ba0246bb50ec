import * as assert from 'uvu/assert';
import { requireInAllLooks, settled, signIn, visit } from './helpers/browser.ts';
import { FAILING } from './helpers/data.ts';
import { shownSuite } from './helpers/suite.ts';

// What pages and dialogs show: in all looks, and to whom.

const { test, own, shown } = await shownSuite('how the console looks');
const at = (path: string) => `${own.world.api.url}/console/w/${shown.workspaceId}/${path}`;
/** Each page, and a text of it. */
const pages = [
  ['overview', 'Customers with the least left'],
  ['keys', 'Northwind backend'],
  [`keys/${shown.keyId}`, 'Recent decisions'],
  ['why', 'Key or customer'],
  ['customers', 'northwind-api'],
  [`customers/${shown.billingId}`, 'Recent decisions'],
  ['webhooks', FAILING],
  [`webhooks/${shown.webhookId}`, 'Finance chat'],
  ['usage', 'Summed up by'],
  ['scopes', 'Scopes'],
  ['tokens', 'Tokens'],
  ['audit-log', 'POST /api-key'],
  ['settings', 'Quota of the team'],
] as const;

test('every page and dialog fits its window, keeps to WCAG 2.2 AA, and makes no element of what a stranger wrote', async () => {
  const { page, complaints, close } = await visit(own.browser);
  await page.goto(`${own.world.api.url}/console`);
  await page.getByRole('heading', { name: 'keytally' }).waitFor();
  await requireInAllLooks(page, 'sign-in');
  await signIn(page, own.world.api.url, shown.token);
  await requireInAllLooks(page, 'workspaces');
  const dialog = page.getByRole('dialog');
  const send = (button: string) => dialog.getByRole('button', { name: button }).click();
  for (const [path, text] of pages) {
    await page.goto(at(path));
    await page.getByText(text).first().waitFor();
    await requireInAllLooks(page, path);
    const buttons = page.locator('button[aria-haspopup=dialog]');
    const texts = await buttons.allInnerTexts();
    // Of the lines of the audit log the first.
    for (const one of path === 'audit-log' ? texts.slice(0, 1) : new Set(texts)) {
      await buttons.nth(texts.indexOf(one)).click();
      await dialog.getByText('Loading…').waitFor({ state: 'detached' });
      await settled(page);
      await requireInAllLooks(page, `${path}: ${one}`);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
  }
  await page.getByRole('button', { name: 'New limit' }).click();
  await page.getByLabel('Name').fill('hourly');
  await page.getByLabel('At most').fill('-1');
  await send('Create limit');
  await page.getByRole('alert').waitFor();
  await requireInAllLooks(page, 'an error');
  await page.goto(at(`customers/${shown.billingId}`));
  await page.getByRole('button', { name: 'Portal link' }).click();
  await send('Make the link');
  await page.getByLabel('Portal link', { exact: true }).waitFor();
  await requireInAllLooks(page, 'what is shown once');
  assert.equal(complaints, []);
  await close();
});

test('the overview has each usage once, with its sum of all days, the largest first', async () => {
  const { page, close } = await own.open('overview');
  await page.goto(at('overview'));
  const rows = page.getByRole('region', { name: 'Credits used by usage' }).getByRole('row');
  await rows.first().waitFor();
  const names = (await rows.allInnerTexts()).map((text) => /forecast|archive/.exec(text)?.[0]);
  assert.equal(names, [undefined, 'forecast', 'archive', undefined]);
  await close();
});

test('a token that only reads is offered nothing that changes anything, on any page', async () => {
  const reading = ['workspace', 'key', 'billing', 'usage', 'webhook', 'audit', 'link'] as const;
  const token = await own.world.newToken(
    own.world.team.id,
    reading.map((one) => `${one}:read` as const),
  );
  const { page, close } = await own.open('keys', token);
  const reads = /^(Sign out|Find|Show|Look again|Prove the books|Download .*)$/;
  for (const [path, text] of pages.filter(([path]) => path !== 'tokens')) {
    await page.goto(at(path));
    await page.getByText(text).first().waitFor();
    await settled(page);
    const offered = await page.locator('button:not(.link)').allInnerTexts();
    assert.equal(
      offered.filter((one) => !reads.test(one)),
      [],
      path,
    );
  }
  assert.is(await page.getByRole('link', { name: 'Tokens' }).count(), 0);
  await close();
});
