import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers } from '../../helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, rowOf, signedIn, visit } from './helpers/browser.ts';

// The tasks of workspaces, scopes, tokens, the audit log and settings, as a person does them.

let world: World;
let browser: Browser;
let workspaceId: string;
const test = suite('workspaces, scopes, tokens, audit log and settings in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify']), launch()]);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Weather' })).body.workspace.id;
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('a workspace is made, renamed and deleted, and an address that leads nowhere says so', async () => {
  const { page, close } = await signedIn(browser, world);
  await page.getByRole('button', { name: 'New workspace' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Short');
  await page.getByRole('dialog').getByRole('button', { name: 'Create workspace' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Shortest');
  await page.getByRole('dialog').getByLabel('Time zone').fill('Europe/Oslo');
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByRole('banner').getByText('Shortest').waitFor();
  await page.getByText('Europe/Oslo').waitFor();
  await page.getByRole('button', { name: 'Delete the workspace' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Type Shortest to delete it').fill('Shortes');
  assert.is(await dialog.getByRole('button', { name: 'Delete for good' }).isDisabled(), true);
  await dialog.getByLabel('Type Shortest to delete it').fill('Shortest');
  await dialog.getByRole('button', { name: 'Delete for good' }).click();
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await inTable(page, 'Workspaces', 'Weather');
  await rowOf(page, 'Workspaces', 'Shortest').waitFor({ state: 'detached' });
  await page.goto(`${world.api.url}/console/w/${workspaceId}/nonsense`);
  await page.getByRole('heading', { level: 1, name: 'Nothing here' }).waitFor();
  for (const path of ['%', '%E0%A4%A', '%25', 'keys/%ff'])
    for (const start of ['', `w/${workspaceId}/`]) {
      await page.goto(`${world.api.url}/console/${start}${path}`);
      await page.getByRole('heading', { level: 1, name: 'Nothing here' }).waitFor();
    }
  await page.getByRole('link', { name: 'Choose a workspace' }).click();
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await page.goto(`${world.api.url}/console/w/ws_unknown/keys`);
  await page.getByRole('alert').waitFor();
  await page.getByRole('link', { name: 'Choose another workspace' }).first().click();
  await page.getByRole('heading', { name: 'Choose a workspace' }).waitFor();
  await close();
});

test('a page asks for its session and its workspace together and once, and again after signing in', async () => {
  const { page, close } = await visit(browser);
  let asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  const workspace = `/api/v1/workspace/${workspaceId}`;
  const count = (path: string) => asked.filter((one) => one === path).length;
  await page.goto(`${world.api.url}/console/w/${workspaceId}/`);
  await page.getByLabel('Access token').fill(world.team.token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.route('**/console/session', async (route) => {
    // Else the page has neither, and the test ends here.
    await eventually('the workspace is asked for', async () => count(workspace) === 1);
    await route.continue();
  });
  asked = [];
  await page.goto(`${world.api.url}/console/w/${workspaceId}/`);
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  assert.equal([count('/console/session'), count(workspace)], [1, 1]);
  await close();
});

test('times stand in the zone of who looks, and in UTC on hover', async () => {
  const { page, close } = await signedIn(browser, world, { timezoneId: 'Asia/Kathmandu' });
  const time = page.getByRole('region', { name: 'Workspaces' }).getByRole('time').first();
  const at = new Date((await time.getAttribute('datetime'))!);
  const zone = {
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  } as const;
  const parts = new Intl.DateTimeFormat('en-US', { ...zone, timeZone: 'Asia/Kathmandu' }).formatToParts(at);
  const of = (type: string) => parts.find((part) => part.type === type)!.value;
  assert.is(await time.innerText(), `${of('day')} ${of('month')} ${of('year')}, ${of('hour')}:${of('minute')}`);
  assert.is(await time.getAttribute('title'), at.toISOString().replace('T', ' ').replace('Z', ' UTC'));
  await close();
});

test('a scope is made, renamed and deleted', async () => {
  const { page, close } = await open('scopes', 'Scopes');
  await page.getByText('No scope yet.').waitFor();
  await page.getByRole('button', { name: 'New scope' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Representation').fill('in voices');
  await dialog.getByLabel('Name').fill('Invoices');
  await dialog.getByRole('button', { name: 'Create scope' }).click();
  await dialog.getByRole('alert').getByText('/representation', { exact: true }).waitFor();
  await dialog.getByLabel('Representation').fill('invoices');
  await dialog.getByRole('button', { name: 'Create scope' }).click();
  await inTable(page, 'Scopes', 'Invoices');
  await page.getByRole('button', { name: 'Edit invoices' }).click();
  await dialog.getByLabel('Name').fill('Bills');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await inTable(page, 'Scopes', 'Bills');
  await page.getByRole('button', { name: 'Delete invoices' }).click();
  await dialog.getByRole('button', { name: 'Delete for good' }).click();
  await page.getByText('No scope yet.').waitFor();
  await close();
});

test('a token is made with the rights that were ticked, in this workspace alone, and revoked', async () => {
  const { page, close } = await open('tokens', 'Tokens');
  await page.getByRole('button', { name: 'New token' }).click();
  const dialog = page.getByRole('dialog', { name: 'New token' });
  await dialog.getByLabel('Name').fill('importer');
  await dialog.getByLabel('key:read').check();
  await dialog.getByRole('button', { name: 'Create token' }).click();
  const secret = await page.getByRole('dialog', { name: 'The new token' }).getByLabel('Access token').inputValue();
  const ask = (path: string) => world.call('get', path, undefined, { token: secret });
  assert.is((await ask(`/api/v1/workspace/${workspaceId}/api-keys`)).status, 200);
  assert.is((await ask(`/api/v1/workspace/${workspaceId}/scopes`)).body.error.code, 40301);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Revoke importer' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke for good' }).click();
  await rowOf(page, 'Access tokens', 'importer').getByText('Revoked').waitFor();
  await eventually(
    'it is refused',
    async () => (await ask(`/api/v1/workspace/${workspaceId}/api-keys`)).status === 401,
  );
  await close();
});

test('the audit log tells who changed what, from what to what, and who was denied', async () => {
  const { id } = await makeCustomers(world, workspaceId).newKey({ name: 'Before' });
  const { accessToken } = (
    await world.call('post', '/api/v1/access-token', { name: 'Kim Larsen', permissions: ['key:write'] })
  ).body;
  await world.call(
    'patch',
    `/api/v1/workspace/${workspaceId}/api-key/${id}`,
    { name: 'After' },
    { token: accessToken.token },
  );
  const reader = await world.newToken(world.team.id, ['key:read']);
  await world.call('post', '/api/v1/workspace', { name: 'denied' }, { token: reader });
  await eventually('the denied attempt is told', async () => {
    const { auditLog } = (await world.call('get', '/api/v1/audit-log?outcome=denied')).body;
    return auditLog.length > 0;
  });
  const { page, close } = await open('audit-log', 'Audit log');
  await page.getByLabel('Id of what was changed').fill(id);
  await page.getByRole('button', { name: 'Find' }).click();
  await rowOf(page, 'Audit log', 'PATCH').getByText('Kim Larsen').waitFor();
  await page.getByRole('button', { name: `PATCH /workspace/{id}/api-key/{akid}` }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Kim Larsen').waitFor();
  const row = dialog.getByRole('row').filter({ hasText: 'name' });
  assert.match(await row.innerText(), /"Before"\s+"After"/);
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.getByLabel('Id of what was changed').fill('');
  await page.getByLabel('Outcome').selectOption('denied');
  await page.getByRole('button', { name: 'Find' }).click();
  await rowOf(page, 'Audit log', 'denied').first().waitFor();
  await rowOf(page, 'Audit log', 'changed').first().waitFor({ state: 'detached' });
  await close();
});

test('settings change the default limits of keys, and tell the quota and the session', async () => {
  const { page, close } = await open('settings', 'Settings');
  await page.getByRole('button', { name: 'Change limits' }).click();
  const dialog = page.getByRole('dialog', { name: 'Default limits of keys' });
  await dialog.getByRole('button', { name: 'Add a limit' }).click();
  await dialog.getByLabel('Name').fill('hourly');
  await dialog.getByLabel('At most').fill('1');
  await dialog.getByLabel('Per').selectOption('hour');
  await dialog.getByRole('button', { name: 'Save limits' }).click();
  await inTable(page, 'Limits', 'hourly');
  const customers = makeCustomers(world, workspaceId);
  const { key } = await customers.newKey();
  const statuses = [await customers.verify({ key }), await customers.verify({ key })].map(({ body }) => body.status);
  assert.equal(statuses, ['VALID', 'RATE_LIMITED']);
  await inTable(page, 'Quota of the team', 'keys');
  await page.getByText('workspace:write').waitFor();
  await close();
});

test.run();

async function open(path: string, heading: string): Promise<{ page: Page; close(): Promise<void> }> {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
  await page.getByRole('heading', { level: 1, name: heading, exact: true }).waitFor();
  return { page, close };
}
