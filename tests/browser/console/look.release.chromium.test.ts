import * as assert from 'uvu/assert';
import { requireAsPictured, requireInAllLooks, rowOf, settled, signIn, visit } from './helpers/browser.ts';
import { FAILING } from './helpers/data.ts';
import { shownSuite } from './helpers/suite.ts';

// What pages and dialogs show: in all looks, and to whom.

const { test, own, shown } = await shownSuite('how the console looks');
const at = (path: string) => `${own.world.api.url}/console/w/${shown.workspaceId}/${path}`;
/** Each page, a text of it, and the name of its picture. */
const pages = [
  ['overview', 'Customers with the least left', 'overview'],
  ['keys', 'Northwind backend', 'keys'],
  [`keys/${shown.keyId}`, 'Recent calls', 'key'],
  ['calls', 'Over a limit on requests', 'calls'],
  ['customers', 'northwind-api', 'customers'],
  [`customers/${shown.billingId}`, 'Northwind backend', 'customer'],
  [`customers/${shown.billingId}?tab=Credits`, 'Ledger', 'customer-credits'],
  [`customers/${shown.billingId}?tab=Usage`, 'Usage, last 30 days', 'customer-usage'],
  [`customers/${shown.billingId}?tab=Calls`, 'Recent calls', ''],
  [`customers/${shown.billingId}?tab=Limits and alerts`, 'Crossed alerts', ''],
  [`customers/${shown.billingId}?tab=Statement`, 'Remaining at the end', ''],
  [`customers/${shown.billingId}?tab=Activity`, 'Created customer', ''],
  ['webhooks', FAILING, 'webhooks'],
  [`webhooks/${shown.webhookId}`, 'Failed 2 times', 'webhook'],
  ['meters', 'Stripe', ''],
  [`meters/${shown.meterId}`, 'No such customer', ''],
  ['usage', 'Summed up by', 'usage'],
  ['scopes', 'Scopes', 'scopes'],
  ['tokens', 'Tokens', 'tokens'],
  ['audit-log', 'Created key', 'audit-log'],
  ['settings', 'Quota of the team', 'settings'],
] as const;

test('every page and dialog fits its window, keeps to WCAG 2.2 AA, and makes no element of what a stranger wrote', async () => {
  const { page, complaints } = await visit(own.browser);
  await page.goto(`${own.world.api.url}/console`);
  await page.getByRole('heading', { name: 'keytally' }).waitFor();
  await requireInAllLooks(page, 'sign-in');
  await requireAsPictured(page, 'console/sign-in');
  await signIn(page, own.world.api.url, shown.token);
  await requireInAllLooks(page, 'workspaces');
  await requireAsPictured(page, 'console/workspaces');
  const dialog = page.getByRole('dialog');
  const send = (button: string) => dialog.getByRole('button', { name: button }).click();
  for (const [path, text, picture] of pages) {
    await page.goto(at(path));
    await page.getByText(text).filter({ visible: true }).first().waitFor();
    await requireInAllLooks(page, path);
    if (picture) await requireAsPictured(page, `console/${picture}`);
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
  await page.getByLabel('Name', { exact: true }).fill('hourly');
  await page.getByLabel('At most').fill('-1');
  await send('Create limit');
  await page.getByRole('alert').waitFor();
  await requireInAllLooks(page, 'an error');
  await page.goto(at(`customers/${shown.billingId}`));
  await page.getByRole('button', { name: 'Portal link' }).click();
  await dialog.getByText('Loading…').waitFor({ state: 'detached' });
  await requireAsPictured(page, 'console/portal-link');
  await send('Make the link');
  await page.getByLabel('Portal link', { exact: true }).waitFor();
  await requireInAllLooks(page, 'what is shown once');
  assert.equal(complaints, []);
});

test('the overview has each usage once, with its sum of all days, the largest first', async () => {
  const { page } = await own.open('overview');
  await page.goto(at('overview'));
  const rows = page.getByRole('region', { name: 'Credits used by usage' }).getByRole('row');
  await rows.first().waitFor();
  const names = (await rows.allInnerTexts()).map((text) => /forecast|archive/.exec(text)?.[0]);
  assert.equal(names, [undefined, 'forecast', 'archive', undefined]);
});

test('keys are told with their calls of a day, and are sorted by them; refusals stand by reason and key, and lead to those calls', async () => {
  const { page } = await own.open('overview');
  await page.goto(at('keys'));
  await rowOf(page, 'Keys', 'Fjord ferries').getByText('12', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Calls, 24 h' }).click();
  await page.getByRole('region', { name: 'Keys' }).getByRole('link').first().getByText('Fjord ferries').waitFor();
  await page.goto(at('calls'));
  const refused = rowOf(page, 'Refused calls, last 24 hours', 'Fjord ferries');
  await refused.getByRole('link', { name: 'Over a limit on requests' }).click();
  await rowOf(page, 'Recent calls', 'GET /forecasts').waitFor({ state: 'detached' });
  await rowOf(page, 'Recent calls', 'GET /timetable').first().waitFor();
});

test('a chart tells the amounts of the period that one points at; a phone leads to every page', async () => {
  const { page } = await own.open('overview');
  await page.goto(at(`customers/${shown.billingId}?tab=Usage`));
  const legend = page.locator('.chart figcaption');
  await legend.getByText('In all').waitFor();
  const inAll = await legend.innerText();
  await page.locator('.drawing').hover();
  await legend.getByText('In all').waitFor({ state: 'detached' });
  assert.match(await legend.innerText(), /^\d+ \w+\s+archive [\d.]+\s+forecast [\d.]+$/);
  assert.is.not(await legend.innerText(), inAll);
  await page.setViewportSize({ width: 360, height: 800 });
  await page.getByRole('button', { name: 'Customers' }).click();
  for (const title of ['Overview', 'Keys', 'Usage', 'Calls', 'Scopes', 'Webhooks', 'Tokens', 'Audit log'])
    assert.ok(await page.getByRole('link', { name: title, exact: true }).first().isVisible(), title);
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor();
});

test('a token that only reads is offered nothing that changes anything, on any page', async () => {
  const reading = ['workspace', 'key', 'billing', 'usage', 'webhook', 'metering', 'audit', 'link'] as const;
  const token = await own.world.newToken(
    own.world.team.id,
    reading.map((one) => `${one}:read` as const),
  );
  const { page } = await own.open('keys', token);
  const reads =
    /^(Sign out|Search|Find|Pause|Show|Refresh|Prove the books|Download .*|Today|Yesterday|\d+ days|(This|Last) month)$/;
  for (const [path, text] of pages.filter(([path]) => path !== 'tokens')) {
    await page.goto(at(path));
    await page.getByText(text).filter({ visible: true }).first().waitFor();
    await settled(page);
    const offered = await page.locator('button:not(.link, .sort, .narrow)').allInnerTexts();
    const changing = offered.filter((one) => !reads.test(one));
    assert.equal(changing, [], path);
  }
  assert.is(await page.getByRole('link', { name: 'Tokens' }).count(), 0);
});
