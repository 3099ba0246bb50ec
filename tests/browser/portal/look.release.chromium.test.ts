import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { connectClickHouse } from '../../../shared/stores/clickhouse.ts';
import {
  inTable,
  requireAccessible,
  requireFits,
  requireInAllLooks,
  requirePublic,
  requireWhole,
  settled,
  visit,
} from '../console/helpers/browser.ts';
import { newLink, opened, TITLE } from './helpers/portal.ts';
import { shownSuite } from '../console/helpers/shown-suite.ts';

// PICTURES names a folder that keeps wide pictures: docs/images/portal. WHOLE_PICTURES keeps narrow ones.
const { PICTURES: wide, WHOLE_PICTURES: narrow } = process.env;

const DAY_MS = 86_400_000;
const { test, own } = shownSuite('how the portal looks');
test.before(() => {
  for (const folder of [wide, narrow]) if (folder) mkdirSync(folder, { recursive: true });
});

const link = (fields: object = {}) => newLink(own.world, { workspaceId: own.shown.workspaceId, ...fields });

for (const colorScheme of ['light', 'dark'] as const)
  test(`the portal in ${colorScheme} fits its window and keeps to WCAG 2.2 AA, opened, empty, closed and asking`, async () => {
    await makeEarlier();
    const { page, complaints, asked, close } = await visit(own.browser, { colorScheme });
    const look = async (name: string) => {
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 800 });
        await settled(page);
        await requireAccessible(page, `${name}, ${colorScheme}, ${width} px`);
        await requireFits(page, `${name} at ${width} px`);
        await requireWhole(page, `${name} at ${width} px`);
        const [folder, end] = width === 1280 ? [wide, ''] : [narrow, '-narrow'];
        if (!folder) continue;
        const path = join(folder, `${name}-${colorScheme}${end}.png`);
        await page.screenshot({ path, fullPage: name !== 'portal-rotate' });
      }
      await page.setViewportSize({ width: 1280, height: 800 });
    };
    const go = async (fields: object) => {
      await page.goto('about:blank');
      await page.goto(`${own.world.api.url}/portal#${await link(fields)}`);
      await page.getByRole('heading', { level: 1, name: TITLE }).waitFor();
    };
    await go({ billingId: own.shown.billingId, permissions: ['rotate'] });
    await inTable(page, 'Movements', new Date().toISOString().slice(0, 7));
    await look('portal');
    await page.getByRole('button', { name: 'Rotate Northwind backend' }).click();
    await page.getByRole('dialog', { name: 'Rotate the key' }).waitFor();
    await look('portal-rotate');
    await go({ customerId: 'A customer whose name has neither end nor mercy '.repeat(5) });
    await page.getByText('You have no API key yet.').waitFor();
    await look('portal-empty');
    await page.getByRole('button', { name: 'Leave' }).click();
    await page.getByText('You have left.').waitFor();
    await page.reload();
    await page.getByRole('alert').waitFor();
    await look('portal-ended');
    assert.equal(complaints, []);
    await requirePublic(own.world, asked);
    const operations = [...asked].filter((one) => one.includes('/api/v1/'));
    assert.ok(operations.every((one) => one.includes('/api/v1/portal')));
    await close();
  });

test('the new secret of a rotated key keeps to them too', async () => {
  const { page, close } = await opened(own.browser, own.world, await link({ permissions: ['rotate'] }));
  await page.getByRole('button', { name: 'Rotate Northwind backend' }).click();
  await page.getByRole('button', { name: 'Rotate key' }).click();
  await page.getByLabel('Secret of the key').waitFor();
  await requireInAllLooks(page, 'portal-secret');
  await close();
});

test.run();

// A chart of one day shows little. Copies of today's events, as the books store those of keys without a record.
async function makeEarlier(): Promise<void> {
  const books = connectClickHouse(own.world.env.CLICKHOUSE_URL!);
  const query = `select * from usage_events final where customer_id = 'northwind' and billing_id != '' and kind = 'verification'`;
  const rows = await (
    await books.client.query({ query, format: 'JSONEachRow' })
  ).json<{ event_id: string; time: string; cost_micros: string }>();
  const values = Array.from({ length: 29 }, (_, i) => i + 1).flatMap((n) => {
    const day = new Date(Date.now() - n * DAY_MS).toISOString().slice(0, 10);
    return rows.map((row) => ({
      ...row,
      event_id: `${row.event_id}-${n}`,
      billing_id: '',
      day,
      time: day + row.time.slice(10),
      cost_micros: Math.round(Number(row.cost_micros) * (0.6 + 0.4 * Math.sin(n / 1.3))),
    }));
  });
  await books.client.insert({ table: 'usage_events', values, format: 'JSONEachRow' });
  await books.close();
}
