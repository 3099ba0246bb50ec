import type { Page } from 'playwright-core';
import * as assert from 'uvu/assert';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { eventually } from '../../helpers/world.ts';
import { inTable, rowOf, settled, stackOf } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';

// Whether all is well, as a person looks at it.

const { test, own } = await consoleSuite('the overview of the console', ['verify']);
// The hourly comparison would find what a test says of the books to be otherwise.
const holding = connectPostgres(own.world.env.DATABASE_URL!, { max: 1 });
await holding`select pg_advisory_lock(hashtext('keytally jobs'), hashtext('reconcile'))`;
await own.world.start('consumer');
test.after(() => holding.end());

test('verifications show while one looks, and are not asked for while the tab is hidden', async () => {
  const { key } = await own.customers.newKey({ name: 'Live' });
  const { page, close } = await own.open('overview');
  await page.getByText('No call in this time.').waitFor();
  await own.customers.verify({ key });
  await inTable(page, 'Calls by answer', 'VALID');
  assert.equal(await stackOf(page, 'VALID'), ['VALID']);
  await page.emulateMedia({ colorScheme: 'dark' });
  await eventually('the chart is drawn in the colours of the dark', async () => {
    return (await stackOf(page, 'VALID'))[0] === 'VALID';
  });
  await page.clock.install();
  await setHidden(page, true);
  await settled(page);
  let asked = 0;
  page.on('request', (request) => void (request.url().includes('/verifications?') && asked++));
  await own.customers.verify({ key });
  await page.clock.fastForward(60_000);
  assert.is(asked, 0);
  await setHidden(page, false);
  await rowOf(page, 'Calls by answer', 'VALID').getByText('2', { exact: true }).waitFor();
  await close();
});

async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'))`);
}
