import type { Browser } from 'playwright-core';
import { suite } from 'uvu';
import { must } from '../../helpers/customers.ts';
import { makeWorld, type World } from '../../helpers/world.ts';
import { launch, requireInAllLooks, signedIn } from './helpers/browser.ts';

// Pages that have nothing to show, and say so: in light and dark, wide and narrow, and within WCAG 2.2 AA.

let world: World;
let browser: Browser;
let workspaceId: string;
const test = suite('empty pages and errors of the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(), launch()]);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Weather' }))).body.workspace.id;
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('every list of a team that has nothing yet says what to do, in all looks', async () => {
  const team = await world.newTeam();
  const { page, close } = await signedIn(browser, { ...world, team });
  await page.getByText(/No workspace yet\..* make one to begin/).waitFor();
  await requireInAllLooks(page, 'empty-workspaces');
  const call = async (path: string, body: object) =>
    (await must(201, world.call('post', path, body, { token: team.token }))).body;
  const { workspace } = await call('/api/v1/workspace', { name: 'Empty' });
  const { apiKey } = await call('/api/v1/api-key', { name: 'Alone', workspaceId: workspace.id });
  const record = { workspaceId: workspace.id, externalMeterId: 'alone' };
  const { billing } = await call('/api/v1/customer-billing', record);
  const webhook = { url: 'https://hooks.example.com/in', events: ['key.created'] };
  const { id: webhookId } = (await call('/api/v1/webhook', webhook)).webhook;
  const { workspace: other } = await call('/api/v1/workspace', { name: 'Emptier' });
  for (const [path, ...texts] of [
    [`${other.id}/keys`, 'No key yet. Make one'],
    [`${other.id}/customers`, 'No record yet.', 'make one'],
    [`${other.id}/usage`, 'Nothing was used in this time. Verify a key with a cost'],
    [`${other.id}/scopes`, 'No scope yet.'],
    [
      `${other.id}/overview`,
      'Make one for a customer who pays by use',
      'Nothing to do: no limit refused a call.',
      'Nothing was used. Verify a key with a cost',
      'Not proved yet',
    ],
    [
      `${workspace.id}/keys/${apiKey.id}`,
      'No limit over a longer window. Add one',
      'No call in this time.',
      'No call in the last 24 hours.',
      'Make one to limit what a key may do',
    ],
    [
      `${workspace.id}/customers/${billing.id}`,
      'Nothing was used. Verify a key of this meter',
      'No credits yet. Add some',
      'No schedule. One grants credits',
      'Add one to be told before the credits run out',
      'A webhook tells you when one is.',
      'No open hold.',
      'Nothing moved in this month. Choose another one',
      'No refill yet.',
    ],
    [`${workspace.id}/webhooks/${webhookId}`, 'Send a test to see whether your receiver gets it.'],
    [`${workspace.id}/why?key=${apiKey.id}`, 'No call in the last 24 hours.'],
    [`${workspace.id}/settings`, 'No limit over a longer window. Add one'],
  ] as const) {
    await page.goto(`${world.api.url}/console/w/${path}`);
    for (const text of texts) await page.getByText(text).first().waitFor();
    await requireInAllLooks(page, `empty-${path.replaceAll(/\w+_\w+/g, 'one').replaceAll(/\W+/g, '-')}`);
  }
  await must(200, world.call('delete', `/api/v1/webhook/${webhookId}`, undefined, { token: team.token }));
  await page.goto(`${world.api.url}/console/w/${workspace.id}/webhooks`);
  await page.getByText('No webhook yet.').waitFor();
  await requireInAllLooks(page, 'empty-webhooks');
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Overview' }).click();
  await page.getByText('Make one to be told of what happens').waitFor();
  await close();
});

test('a page of what is not there, or may not be read, tells what the api said and the id of the request, in all looks', async () => {
  const { page, close } = await signedIn(browser, world);
  for (const [path, heading] of Object.entries({
    'keys/key_unknown': 'Key',
    'customers/bill_unknown': 'Customer',
    'webhooks/hook_unknown': 'Webhook',
    usage: 'Usage',
  })) {
    await page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
    if (path === 'usage') {
      await page.getByLabel('Time zone').fill('Atlantis');
      await page.getByRole('button', { name: 'Show' }).click();
    }
    await page.getByRole('heading', { level: 1, name: heading, exact: true }).waitFor();
    await page
      .getByRole('alert')
      .getByText(/^Request \S+$/)
      .waitFor();
    await requireInAllLooks(page, `error-${path.replace('/', '-')}`);
  }
  await page.goto(`${world.api.url}/console/w/${workspaceId}/nonsense`);
  await page.getByText('The address leads nowhere').waitFor();
  await requireInAllLooks(page, 'error-nowhere');
  await page.goto(`${world.api.url}/console/w/ws_unknown/keys`);
  await page
    .getByRole('alert')
    .getByText(/^Request \S+$/)
    .waitFor();
  await requireInAllLooks(page, 'error-workspace');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').fill('kt_nonsense');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page
    .getByRole('alert')
    .getByText(/^Request \S+$/)
    .waitFor();
  await requireInAllLooks(page, 'error-sign-in');
  await close();
});

test.run();
