import type { Browser } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../helpers/customers.ts';
import { makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, signedIn } from './helpers/browser.ts';
import { focused, tabTo } from './helpers/keyboard.ts';

// Long lists stay quick.

const MANY = 10_000;
const SOME = 60;
let world: World;
let browser: Browser;
const test = suite('long lists in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify']), launch()]);
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test('a table of 10,000 keys scrolls to its end with few rows in the page', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Large' }))).body;
  const { id } = await makeCustomers(world, workspace.id).newKey({ name: 'Key 0' });
  // Copies of a key, as the api stores them: making each by a request would take the test's time.
  await world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object(
      'id', 'key_' || lpad(i::text, 26, '0'), 'name', 'Key ' || i))).*
    from api_keys k, generate_series(1, ${MANY - 1}) i where k.id = ${id}`;
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspace.id}/keys`);
  await inTable(page, 'Keys', 'Key ');
  const most = await page.evaluate<number>(`new Promise((resolve) => {
    const region = document.querySelector('[role=region]');
    let most = 0;
    const step = () => {
      most = Math.max(most, document.querySelectorAll('tbody tr').length);
      const table = region.querySelector('table');
      const atEnd = region.scrollTop + region.clientHeight >= region.scrollHeight - 2;
      if (atEnd && table.getAttribute('aria-rowcount') !== '-1') resolve(most);
      else { region.scrollTop += 2_000; requestAnimationFrame(step); }
    };
    step();
  })`);
  assert.is(
    await page.getByRole('region', { name: 'Keys' }).getByRole('table').getAttribute('aria-rowcount'),
    String(MANY + 1),
  );
  assert.ok(most < 80, `${most} rows at once`);
  await close();
});

test('a table scrolls to its end by keyboard alone', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Weather' }))).body;
  const { newKey } = makeCustomers(world, workspace.id);
  for (let i = 1; i <= SOME; i++) await newKey({ name: `Key ${i}` });
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspace.id}/keys`);
  await inTable(page, 'Keys', 'Key 1');
  assert.is(await page.getByRole('link', { name: `Key ${SOME}` }).count(), 0, 'only rows in sight are there');
  await tabTo(page, 'Find keys');
  await page.keyboard.press('Tab');
  assert.is(await focused(page), 'Keys');
  await page.keyboard.press('End');
  await page.getByRole('link', { name: `Key ${SOME}` }).waitFor();
  await close();
});

test.run();
