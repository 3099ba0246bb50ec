import * as assert from 'uvu/assert';
import { must } from '../../helpers/customers.ts';
import { eventually } from '../../helpers/world.ts';
import { settled } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';

// What a token may not do is neither asked for nor offered.

const { test, own } = await consoleSuite('rights in the console');

test('a token that only reads is offered nothing that changes anything, on any page', async () => {
  await own.customers.newMeter({ externalMeterId: 'read', totalCredits: '5' });
  const { id: billingId } = await own.customers.billing('read');
  const { id } = await own.customers.newKey({ name: 'To read', externalMeterId: 'read' });
  const target = { url: 'https://hooks.example.com/in', events: ['key.created'], workspaceId: own.workspaceId };
  const { webhook } = (await must(201, own.world.call('post', '/api/v1/webhook', target))).body;
  const permissions = ['workspace', 'key', 'billing', 'usage', 'webhook', 'audit', 'link'].map((one) => `${one}:read`);
  const body = { name: 'reader', permissions };
  const { accessToken } = (await must(201, own.world.call('post', '/api/v1/access-token', body))).body;
  const { page, close } = await own.open('overview', accessToken.token);
  const reads = /^(Sign out|Find|Show|Look again|Prove the books|Download .*|(POST|PATCH|DELETE) \/.*)$/;
  for (const [path, shown] of [
    ['overview', 'Customers with the least left'],
    ['keys', 'To read'],
    [`keys/${id}`, 'Recent decisions'],
    ['customers', 'read'],
    [`customers/${billingId}`, 'Nothing was used.'],
    ['usage', 'Nothing was used in this time.'],
    ['why', 'Key or customer'],
    ['scopes', 'Scopes'],
    ['webhooks', target.url],
    [`webhooks/${webhook.id}`, 'Nothing was told'],
    ['audit-log', 'POST /api-key'],
    ['settings', 'Quota of the team'],
  ] as const) {
    await page.goto(`${own.world.api.url}/console/w/${own.workspaceId}/${path}`);
    await page.getByText(shown).first().waitFor();
    await settled(page);
    const offered = await page.getByRole('button').allInnerTexts();
    const changing = offered.filter((one) => !reads.test(one));
    assert.equal(changing, [], path);
  }
  assert.is(await page.getByRole('link', { name: 'Tokens' }).count(), 0);
  await close();
});

test("a token of some rights in some workspaces is not offered what is the team's, nor asks for what it may not read", async () => {
  const { world, workspaceId } = own;
  const token = await world.newToken(world.team.id, ['workspace:read', 'workspace:write', 'key:read'], [workspaceId]);
  const { page, close } = await own.open('settings', token);
  const refused: string[] = [];
  page.on('response', (response) => void (response.status() >= 400 && refused.push(response.url())));
  const menu = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
  await menu.first().waitFor();
  assert.equal(await menu.allInnerTexts(), ['Overview', 'Keys', 'Scopes', 'Settings']);
  await menu.first().click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await settled(page);
  assert.equal(refused, []);
  await page.goto(`${world.api.url}/console`);
  await page.getByRole('link', { name: 'Weather' }).waitFor();
  assert.is(await page.getByRole('button', { name: 'New workspace' }).count(), 0);
  await close();
});

test('the page of a session whose token was revoked asks to sign in, and shows nothing more', async () => {
  const body = { name: 'leaver', permissions: ['workspace:read', 'key:read'] };
  const { accessToken } = (await must(201, own.world.call('post', '/api/v1/access-token', body))).body;
  const { page, close } = await own.open('keys', accessToken.token);
  await must(200, own.world.call('delete', `/api/v1/access-token/${accessToken.id}`));
  const session = `${own.world.api.url}/console/session`;
  await eventually('the session ends', async () => {
    return (await page.request.get(session, { headers: { 'X-Keytally-Session': '1' } })).status() === 401;
  });
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByLabel('Access token').waitFor();
  assert.is(await page.getByRole('navigation', { name: 'Pages' }).count(), 0);
  await close();
});
