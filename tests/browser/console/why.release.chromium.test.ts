import type { Page } from 'playwright-core';
import * as assert from 'uvu/assert';
import { VERIFY_BATCH_PATH } from '../../../shared/verification/operation.ts';
import { makeBackground } from '../../../apps/api/tests/helpers/background.ts';
import { must } from '../../helpers/customers.ts';
import { dayWithRoom } from '../../helpers/day-with-room.ts';
import { eventually } from '../../helpers/world.ts';
import { rowOf, stackOf } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';

// What a key's calls were answered, and why one was refused, as a person asks.

const { test, own } = await consoleSuite('refusals in the console');
test.before(() => dayWithRoom('Europe/Oslo'));
const daily = { name: 'daily', unit: 'requests', limit: 2, per: 'day', timezone: 'Europe/Oslo' };

test("a key's page counts what its calls were answered, and lists the last ones with reason, limit and route", async () => {
  const planned = { name: 'planned', unit: 'requests', limit: 1, per: 'day', shadow: true };
  const key = await own.customers.newKey({ name: 'Counted', limits: [daily, planned] });
  for (const path of ['/a', '/a', '/b']) await own.customers.verify({ key: key.key, route: `GET ${path}` });
  await refusalKnown(key.id);
  const { page, close } = await own.open(`keys/${key.id}`);
  for (const span of ['Last hour', 'Last 30 days']) {
    await page.getByLabel('Time', { exact: true }).selectOption(span);
    await rowOf(page, 'Calls by answer', 'RATE_LIMITED').getByText('key/daily').waitFor();
    assert.match(await rowOf(page, 'Calls by answer', 'RATE_LIMITED').innerText(), /RATE_LIMIT\s+key\/daily\s+1$/);
    assert.match(await rowOf(page, 'Calls by answer', 'VALID').first().innerText(), /2$/);
    assert.match(await rowOf(page, 'Calls by answer', 'would be refused').first().innerText(), /key\/planned/);
  }
  assert.equal(await stackOf(page, 'RATE_LIMITED'), ['VALID', 'RATE_LIMITED']);
  const decision = await rowOf(page, 'Recent decisions', 'RATE_LIMITED').innerText();
  assert.match(decision, /RATE_LIMITED\s+RATE_LIMIT\s+key\/daily\s+GET \/b$/);
  await close();
});

test('each reason is told with what changes it', async () => {
  const { newKey, newMeter, billing } = own.customers;
  const metered = async (meter: string, fields: object, limits?: object[]) => {
    await newMeter({ externalMeterId: meter, ...fields });
    const { id } = await billing(meter);
    if (limits) await must(200, own.world.call('patch', `/api/v1/customer-billing/${id}`, { limits }));
    return newKey({ name: meter, externalMeterId: meter });
  };
  const path = `/api/v1/workspace/${own.workspaceId}`;
  const scopes = [{ representation: 'forecasts', read: true }];
  const monthly = { name: 'monthly', unit: 'credits', limit: '1', per: 'month' };
  const of = (usage: string) => ({ billing: { usage } });
  const deleted = await newKey({ name: 'Deleted one' });
  await must(200, own.world.call('delete', `${path}/api-key/${deleted.id}`));
  const expired = await newKey();
  await own.world.sql`update api_keys set expires_at = ${Date.now() - 3_600_000} where id = ${expired.id}`;
  const background = makeBackground(own.world);
  await background.apply('key', expired.id);
  const pooled = { name: 'pooled', unit: 'credits', usageName: 'pooled', limit: '1', per: 'day' };
  await must(200, own.world.call('patch', path, { defaultLimits: [pooled] }));
  const ofPool = { billing: { usage: '1.5', usageName: 'pooled' } };
  const told = [
    [expired, [{}], 'The key had reached its end.', 'its end is'],
    [
      await newKey(),
      [ofPool],
      "The limit pooled of the workspace's keys was reached: at most 1 credits of pooled per day.",
      'raise it for all keys of the workspace',
    ],
    [
      await newKey({ rateLimitPerSecond: 1 }),
      Array.from({ length: 9 }, () => ({})),
      'of the key was reached: at most 1 requests per second.',
      'raise it on the key',
    ],
    [await newKey({ enabled: false }), [{}], 'The key was disabled.', 'the key is disabled'],
    [
      await newKey({ allowedIPs: ['192.0.2.1'] }),
      [{ ip: '198.51.100.7' }],
      'an address that the key may not be used from',
      'it may come from 192.0.2.1',
    ],
    [
      await newKey({ externalMeterId: 'no-record' }),
      [of('1')],
      "no record has the key's meter, no-record",
      'the meter has none',
    ],
    [
      await newKey(),
      [{ requestedScopes: scopes }],
      'a scope that the key was not granted',
      'Grant the scope to the key.',
    ],
    [
      await metered('capped', { allowOverages: true, spendCap: '2' }),
      [of('1'), of('1.5')],
      'beyond its spend cap',
      '1 of 2 are used',
    ],
    [
      await metered('slowed', { totalCredits: '9' }, [monthly]),
      [of('1'), of('1.5')],
      'The limit monthly of the record was reached: at most 1 credits per month.',
      'raise it on the record',
    ],
    [
      await metered('fjord-ferries', { totalCredits: '5' }),
      [of('5'), of('1')],
      'The call cost more than its record has left.',
      '0 credits are available',
    ],
    [deleted, [{}], 'The key was deleted.', 'give the customer a new key'],
  ] as const;
  for (const [{ key }, calls] of told) {
    const verifications = calls.map((call) => ({ key, ...call }));
    await must(200, own.world.call('post', own.world.verify!.url + VERIFY_BATCH_PATH, { verifications }));
  }
  for (const [key] of told) await refusalKnown(key.id);
  const { page, close } = await own.open('why');
  await find(page, 'nobody of this name');
  await page.getByText('No key and no record fits.').waitFor();
  const verdict = page.getByRole('region', { name: 'The last refusal' });
  for (const [{ id }, , why, now] of told) {
    await find(page, id);
    await verdict.getByText(why).waitFor();
    await verdict.getByText(now).waitFor();
  }
  await close();
});

// Calls that passed may be in the books before.
async function refusalKnown(apiKeyId: string): Promise<void> {
  await eventually('a refusal is in the books', async () => {
    const recent = await own.world.call('get', `/api/v1/verifications/recent?apiKeyId=${apiKeyId}`);
    const isKnown = recent.body.data.some(({ status }: { status: string }) => status !== 'VALID');
    const query = `workspaceId=${own.workspaceId}&apiKeyId=${apiKeyId}&groupBy=`;
    const counts = (await own.world.call('get', `/api/v1/verifications?${query}`)).body.data as unknown[];
    return isKnown && counts.length > 0;
  });
}

async function find(page: Page, text: string): Promise<void> {
  await page.getByLabel('Key or customer').fill(text);
  await page.getByRole('button', { name: 'Find' }).click();
}
