import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWebhooksWorld } from '../../../apps/webhooks/helpers/webhooks-world.ts';
import { launch, rowOf, signedIn } from './helpers/browser.ts';

let isMended = false;
const failing = (_: unknown, response: { statusCode: number; end(text: string): void }) => {
  response.statusCode = isMended ? 200 : 500;
  response.end(isMended ? 'thanks' : '<b>out of order</b>');
};
const [told, browser] = await Promise.all([makeWebhooksWorld(failing), launch()]);
test.after(() => browser.close());

test('a webhook that fails says so, with what its receiver answered, and delivers again once that is mended', async () => {
  const { url } = told.receiver;
  const { id } = await told.newWebhook(['key.created'], { workspaceId: told.workspaceId });
  await told.newKey('Announced');
  await told.ended(id, 'WAITING', 1);
  const { page, close } = await signedIn(browser, told.world);
  await page.goto(`${told.world.api.url}/console/w/${told.workspaceId}/webhooks`);
  await rowOf(page, 'Webhooks', url).getByText('Failing').waitFor();
  await page.getByRole('link', { name: url }).click();
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
