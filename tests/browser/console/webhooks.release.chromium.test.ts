import type { Browser, Locator, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWebhooksWorld, type WebhooksWorld } from '../../../apps/webhooks/helpers/webhooks-world.ts';
import { eventually } from '../../helpers/world.ts';
import { inTable, launch, rowOf, signedIn, visit } from './helpers/browser.ts';

// The tasks of the pages of webhooks, as a person does them. The first receiver takes everything, the second fails until it is mended.

const DELIVERIES = 60;
let told: WebhooksWorld;
let browser: Browser;
let isMended = false;
const test = suite('webhooks in the console');
test.before(async () => {
  const failing = (_: unknown, response: { statusCode: number; end(text: string): void }) => {
    response.statusCode = isMended ? 200 : 500;
    response.end(isMended ? 'thanks' : '<b>out of order</b>');
  };
  [told, browser] = await Promise.all([makeWebhooksWorld({ receivers: 2, answers: [undefined!, failing] }), launch()]);
});
test.after(async () => {
  await browser?.close();
  await told?.stop();
});

test('a webhook is made, tested, changed, rotated, disabled and deleted', async () => {
  const { page, close } = await open();
  await page.getByText('No webhook yet.').waitFor();
  const url = `${told.receivers[0]!.url}/hook`;
  await page.getByRole('button', { name: 'New webhook' }).click();
  const form = page.getByRole('dialog', { name: 'New webhook' });
  await form.getByLabel('URL').fill('http://example.com');
  await form.getByLabel('key.created').check();
  await form.getByRole('button', { name: 'Create webhook' }).click();
  await form.getByRole('alert').getByText('/url', { exact: true }).waitFor();
  await form.getByLabel('URL').fill(url);
  await form.getByLabel('What it is for').fill('Finance chat');
  await form.getByRole('button', { name: 'Create webhook' }).click();
  const secret = await secretIn(page.getByRole('dialog', { name: 'The new webhook' }));
  assert.match(secret, /^whsec_/);
  await page.keyboard.press('Escape');
  await inTable(page, 'Webhooks', 'Finance chat');
  await page.getByRole('link', { name: url }).click();
  await page.getByRole('heading', { level: 1, name: 'Finance chat' }).waitFor();

  await page.getByText('Nothing was told in the last 30 days.').waitFor();
  await page.getByRole('button', { name: 'Send a test' }).click();
  await rowOf(page, 'Deliveries', 'webhook.test').getByText('Delivered').waitFor();
  assert.is(told.receivers[0]!.got[0]!.path, '/in/hook');

  await page.getByRole('button', { name: 'Edit' }).click();
  const edit = page.getByRole('dialog', { name: 'Edit the webhook' });
  await edit.getByLabel('key.created').uncheck();
  await edit.getByLabel('key.rotated').check();
  await edit.getByRole('button', { name: 'Save' }).click();
  await page.getByText('key.rotated').waitFor();

  await page.getByRole('button', { name: 'Rotate secret' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click();
  assert.is.not(await secretIn(page.getByRole('dialog', { name: 'The new secret' })), secret);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Send a test' }).click();
  await eventually('both secrets sign', async () => {
    const signature = told.receivers[0]!.got.at(-1)!.headers['webhook-signature'] as string;
    return signature.split(' ').length === 2;
  });
  await page.getByRole('button', { name: 'Rotate secret' }).click();
  const again = page.getByRole('dialog', { name: 'Rotate the secret' });
  await again.getByRole('button', { name: 'Rotate' }).click();
  await again.getByRole('alert').waitFor();
  await again.getByLabel('Replace the secret of the last rotation').check();
  await again.getByRole('button', { name: 'Rotate' }).click();
  assert.match(await secretIn(page.getByRole('dialog', { name: 'The new secret' })), /^whsec_/);
  await page.keyboard.press('Escape');

  await page.getByRole('button', { name: 'Disable' }).click();
  await page.getByText('Disabled', { exact: true }).waitFor();
  assert.is(await page.getByRole('button', { name: 'Send a test' }).count(), 0);
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByRole('button', { name: 'Send a test' }).waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete for good' }).click();
  await page.getByText('No webhook yet.').waitFor();
  await close();
});

test('a webhook that fails says so, with what its receiver answered, and delivers again once that is mended', async () => {
  const { id } = await told.newWebhook(told.receivers[1]!.url, ['key.created'], { workspaceId: told.workspaceId });
  await told.newKey('Announced');
  await told.ended(id, 'WAITING', 1);
  const { page, close } = await open();
  await rowOf(page, 'Webhooks', told.receivers[1]!.url).getByText('Failing').waitFor();
  await page.getByRole('link', { name: told.receivers[1]!.url }).click();
  await page.getByText('every try fails since').waitFor();
  await rowOf(page, 'Deliveries', 'key.created').getByText('500').waitFor();
  await page.getByRole('button', { name: 'key.created' }).click();
  const dialog = page.getByRole('dialog', { name: 'key.created' });
  await dialog.getByText('<b>out of order</b>').first().waitFor();
  isMended = true;
  await dialog.getByRole('button', { name: 'Deliver again' }).click();
  await rowOf(page, 'Deliveries', 'key.created').getByText('Delivered').waitFor();
  await page.getByText('Enabled', { exact: true }).waitFor();
  assert.is((await told.read(id)).failingSince, undefined);
  await close();
});

test('all deliveries of a webhook are listed, page by page', async () => {
  const { id } = await told.newWebhook(told.receivers[0]!.url, ['key.created'], { workspaceId: told.workspaceId });
  for (let i = 0; i < DELIVERIES; i++) await told.newKey(`Key ${i}`);
  const { page, close } = await open(`/${id}`);
  await inTable(page, 'Deliveries', 'key.created');
  await page.getByRole('region', { name: 'Deliveries' }).focus();
  await page.keyboard.press('End');
  const table = page.getByRole('region', { name: 'Deliveries' }).getByRole('table');
  await eventually(
    'the table is whole',
    async () => (await table.getAttribute('aria-rowcount')) === String(DELIVERIES + 1),
  );
  await close();
});

test('a token that may not change webhooks, or not read them, is offered neither', async () => {
  const make = async (permissions: string[]) =>
    (await told.world.call('post', '/api/v1/access-token', { name: 'reader', permissions })).body.accessToken.token;
  const { page, close } = await open('', await make(['workspace:read', 'webhook:read']));
  await inTable(page, 'Webhooks', told.receivers[1]!.url);
  assert.is(await page.getByRole('button', { name: 'New webhook' }).count(), 0);
  await page.getByRole('link', { name: told.receivers[1]!.url }).click();
  await page.getByRole('button', { name: 'key.created' }).first().click();
  assert.is(await page.getByRole('button', { name: 'Deliver again' }).count(), 0);
  assert.is(await page.getByRole('button', { name: 'Rotate secret' }).count(), 0);
  await close();
  const other = await visit(browser);
  await other.page.goto(`${told.world.api.url}/console`);
  await other.page.getByLabel('Access token').fill(await make(['workspace:read', 'key:read']));
  await other.page.getByRole('button', { name: 'Sign in' }).click();
  await other.page.getByRole('link', { name: 'told' }).click();
  await other.page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Keys' }).waitFor();
  assert.is(await other.page.getByRole('link', { name: 'Webhooks' }).count(), 0);
  await other.close();
});

test.run();

const secretIn = (dialog: Locator) => dialog.getByLabel('Secret of the webhook').inputValue();

async function open(more = '', token?: string): Promise<{ page: Page; close(): Promise<void> }> {
  const world = token === undefined ? told.world : { ...told.world, team: { ...told.world.team, token } };
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${told.workspaceId}/webhooks${more}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
  return { page, close };
}
