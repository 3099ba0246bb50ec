import { randomUUID as newKey } from 'node:crypto';
import { permissions } from '../../../../shared/contract/caller.ts';
import { connectClickHouse } from '../../../../shared/stores/clickhouse.ts';
import { must, makeCustomers } from '../../../helpers/customers.ts';
import { eventually, type World } from '../../../helpers/world.ts';

const DAY_MS = 86_400_000;
const LONG = 'A name as long as the longest that a customer of a customer ever thought of, with neither end nor mercy';

/** A workspace with something on every page: keys, scopes, and a record with grants, limits, alerts and usage. */
export type Shown = { workspaceId: string; keyId: string; billingId: string; webhookId: string; token: string };

/** Where a webhook posts that does not get through. */
export const FAILING = 'https://hooks.northwind.example/finance';

/** Makes what the pages show. Its names are those of a small company that sells an API. */
export async function makeShown(world: World): Promise<Shown> {
  const api = async (method: string, path: string, body?: object) =>
    (
      await must(
        method === 'post' ? 201 : 200,
        world.call(method, path, body, { headers: { 'Idempotency-Key': newKey() } }),
      )
    ).body;
  const { workspace } = await api('post', '/api/v1/workspace', { name: 'Weather, production' });
  const workspaceId = workspace.id as string;
  for (const [representation, name] of [
    ['forecasts', 'Forecasts'],
    ['stations', 'Measuring stations'],
    ['archive', 'Archive since 1949'],
  ])
    await api('post', `/api/v1/workspace/${workspaceId}/scope`, {
      name,
      representation,
      description: `${name} of all regions`,
    });
  const meters = {
    'northwind-api': '12500.75',
    'harbour-office': '40',
    'alpine-club': '0',
    'fjord-ferries': '99000',
    'observatory-of-the-university-of-the-north-and-its-islands': '2500',
  };
  const ids: Record<string, string> = {};
  for (const [externalMeterId, totalCredits] of Object.entries(meters)) {
    const made = await api('post', '/api/v1/customer-billing', { workspaceId, externalMeterId, totalCredits });
    ids[externalMeterId] = made.billing.id;
  }
  const billingId = ids['northwind-api']!;
  const limit = { name: 'daily', unit: 'credits', limit: '5000', per: 'day', timezone: 'Europe/Oslo' };
  await api('patch', `/api/v1/customer-billing/${billingId}`, {
    limits: [limit],
    alerts: [{ name: 'low', when: { usedPercent: 4 } }],
  });
  const postpaid = { workspaceId, externalMeterId: 'city-transport', allowOverages: true, spendCap: '2000' };
  await api('post', '/api/v1/customer-billing', postpaid);
  const campaign = { credits: '9000', name: 'campaign in spring', priority: 20, expiresAt: Date.now() + 60 * DAY_MS };
  await api('post', `/api/v1/customer-billing/${billingId}/grant`, campaign);
  const trial = { credits: '250', name: 'trial', priority: 10, expiresAt: Date.now() + 14 * DAY_MS };
  await api('post', `/api/v1/customer-billing/${billingId}/grant`, trial);
  const monthly = { credits: '1000', every: 'month', timezone: 'Europe/Oslo', name: 'included' };
  await api('post', `/api/v1/customer-billing/${billingId}/grant-schedule`, monthly);
  const key = (fields: object) =>
    api('post', '/api/v1/api-key', { workspaceId, ...fields }).then(({ apiKey }) => apiKey);
  const first = await key({
    name: 'Northwind backend',
    customerId: 'northwind',
    externalMeterId: 'northwind-api',
    prefix: 'wx',
    scopes: [{ representation: 'forecasts', read: true }],
    limits: [{ name: 'burst', unit: 'requests', limit: 120, per: 'minute' }],
    metadata: { plan: 'business', contact: 'ops@northwind.example' },
  });
  await key({ name: 'Harbour office', customerId: 'harbour', externalMeterId: 'harbour-office', prefix: 'wx' });
  const off = await key({
    name: 'Alpine club, trial',
    customerId: 'alpine',
    externalMeterId: 'alpine-club',
    enabled: false,
  });
  await key({ name: LONG, customerId: LONG });
  const token = (fields: object) => api('post', '/api/v1/access-token', fields).then(({ accessToken }) => accessToken);
  const { id: ownId, token: own } = await token({ name: 'Kim Larsen', permissions });
  await must(200, world.call('get', '/api/v1/workspace', undefined, { token: own }));
  await token({ name: 'Gateway', permissions: ['key:verify'], workspaceIds: [workspaceId] });
  const old = await token({ name: 'Import of last year', permissions: ['key:read', 'key:write'] });
  await api('delete', `/api/v1/access-token/${old.id}`);
  // Usage of the days before, booked as a correction is.
  const now = Date.now();
  for (let i = 1; i < 30; i++) {
    const day = new Date(now - i * DAY_MS).toISOString().slice(0, 10);
    for (const [usageName, amount] of [
      ['forecast', (120 + 70 * Math.sin(i / 1.1) + (i % 7) * 9).toFixed(2)],
      ['archive', (60 + 30 * Math.cos(i / 2.3)).toFixed(2)],
      ['stations', (i % 3) * 12 + 8],
    ])
      await api('post', `/api/v1/customer-billing/${billingId}/adjustment`, {
        amount: String(amount),
        usageName,
        reason: 'moved here from another system',
        day,
      });
  }
  const { verify } = makeCustomers(world, workspaceId);
  for (const [usageName, usage] of [
    ['forecast', '310.25'],
    ['archive', '122.5'],
    ['forecast', '200.000001'],
  ])
    await must(200, verify({ key: first.key, billing: { usage, usageName } }));
  await must(
    200,
    verify({ key: first.key, billing: { usage: '25', usageName: 'archive', hold: { expiresIn: 3_600 } } }),
  );
  await eventually('the books have the usage, and the alert is told', async () => {
    const { data } = (await world.call('get', `/api/v1/usage/${billingId}`)).body;
    const { alerts } = (await world.call('get', `/api/v1/customer-billing/${billingId}/alerts`)).body;
    return data.length >= 89 && alerts.length > 0;
  });
  await makeRefusals();
  await makeHour();
  const webhookId = await makeWebhooks();
  await eventually('last uses are known', async () => {
    const { apiKey } = (await world.call('get', `/api/v1/workspace/${workspaceId}/api-key/${first.id}`)).body;
    const { accessToken } = (await world.call('get', `/api/v1/access-token/${ownId}`)).body;
    return apiKey.lastUsedAt !== undefined && accessToken.lastUsedAt !== undefined;
  });
  return { workspaceId, keyId: first.id, billingId, webhookId, token: own };

  async function makeRefusals(): Promise<void> {
    const limits = [{ name: 'hourly', unit: 'requests', limit: 5, per: 'hour' }];
    const ferries = { customerId: 'fjord', externalMeterId: 'fjord-ferries', limits };
    for (const [name, calls] of [
      ['Fjord ferries, timetable', 12],
      ['Fjord ferries, ticket office', 8],
    ] as const) {
      const one = await key({ name, ...ferries });
      for (let i = 0; i < calls; i++) await verify({ key: one.key, route: 'GET /timetable', billing: { usage: '1' } });
    }
    const bus = await key({ name: 'City transport, every bus', customerId: 'city', externalMeterId: 'city-transport' });
    for (const usage of ['310.5', '75']) await verify({ key: bus.key, billing: { usage, usageName: 'stations' } });
    for (const usage of ['90000', '0.5', '90000'])
      await verify({ key: first.key, route: 'GET /forecasts/{station}', billing: { usage, usageName: 'forecast' } });
    await verify({ key: off.key, route: 'GET /huts' });
    await eventually('refusals are told', async () => {
      const { data } = (await world.call('get', `/api/v1/verifications/recent?apiKeyId=${off.id}`)).body;
      return data.length > 0;
    });
    // Once an hour the consumer writes it itself.
    await world.sql`
      insert into job_watermarks (job, at) values ('reconciled', ${Date.now() - 23 * 60_000}) on conflict do nothing`;
  }

  // A chart of one minute shows little: the hour before, as verify and the consumer store it.
  async function makeHour(): Promise<void> {
    const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
    const minutes = Array.from({ length: 58 }, (_, i) => i + 1);
    const at = (minutesAgo: number) => new Date(Math.floor(Date.now() / 60_000 - minutesAgo) * 60_000).toISOString();
    const events = minutes.flatMap((n) =>
      Array.from({ length: Math.round(14 + 6 * Math.sin(n / 5) + (n % 4)) }, (_, i) => ({
        workspace_id: workspaceId,
        day: at(n).slice(0, 10),
        event_id: `evt_${n}_${i}`,
        kind: 'verification',
        key_id: first.id,
        customer_id: 'northwind',
        time: at(n).slice(0, -1),
      })),
    );
    const refusal = { team_id: world.team.id, workspace_id: workspaceId, key_id: first.id, boot: 'before' };
    const refusals = minutes.flatMap((n) =>
      [
        { status: 'RATE_LIMITED', reason: 'RATE_LIMIT', limited_by: 'key/burst', calls: n % 9 < 3 ? 2 + (n % 3) : 0 },
        { status: 'INVALID_SCOPES', reason: 'SCOPE_MISSING', limited_by: '', calls: n % 7 === 0 ? 1 : 0 },
      ]
        .filter(({ calls }) => calls > 0)
        .map((one) => ({ ...refusal, ...one, minute: at(n).slice(0, 19) })),
    );
    await books.client.insert({ table: 'usage_events', values: events, format: 'JSONEachRow' });
    await books.client.insert({ table: 'refusals', values: refusals, format: 'JSONEachRow' });
    await books.close();
  }

  // Nothing delivers here: what became of the deliveries is written as the program for webhooks writes it.
  async function makeWebhooks(): Promise<string> {
    const make = (fields: object) => api('post', '/api/v1/webhook', { workspaceId, ...fields });
    await make({ url: 'https://crm.example/in/keytally', events: ['key.created', 'key.rotated'] });
    const events = ['credits.alert', 'credits.exhausted', 'grant.expiring'];
    const { webhook } = await make({ url: FAILING, events, description: 'Finance chat' });
    for (let i = 0; i < 3; i++) await api('post', `/api/v1/webhook/${webhook.id}/test`);
    await world.sql`update webhooks set failing_since = now() - interval '3 hours' where id = ${webhook.id}`;
    await world.sql`
      insert into webhook_tries (delivery_id, number, team_id, at, duration_ms, status, error, answer)
      select id, n, team_id, now() - interval '3 hours' + n * interval '5 minutes', 120 * n,
             case n when 1 then 503 end, case n when 2 then 'connect ECONNREFUSED' end,
             case n when 1 then 'The service is being moved to another building, with all of its cables' end
      from webhook_deliveries, generate_series(1, 2) n where webhook_id = ${webhook.id}`;
    await world.sql`
      update webhook_deliveries set attempts = 2, next_at = now() + interval '25 minutes' where webhook_id = ${webhook.id}`;
    return webhook.id as string;
  }
}
