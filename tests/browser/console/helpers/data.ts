import { randomUUID as newKey } from 'node:crypto';
import { permissions } from '../../../../shared/contract/caller.ts';
import { eventually, makeCustomers, must, type World } from '../../../helpers/world.ts';

const DAY_MS = 86_400_000;
// What a stranger may write into any text: as long as it can be, and an element, if a page took it for one.
const HOSTILE = `"><img data-x src=x onerror="alert(1)">${' as long as names can be'.repeat(3)}`;

/** A workspace with something on every page: keys, scopes, and a record with grants, limits, alerts and usage. */
export type Shown = {
  workspaceId: string;
  keyId: string;
  billingId: string;
  webhookId: string;
  meterId: string;
  token: string;
};

/** Where a webhook posts that does not get through. */
export const FAILING = 'https://hooks.northwind.example/finance';

/** Makes what the pages show. Its names are those of a small company that sells an API. */
export async function makeShown(world: World): Promise<Shown> {
  const api = async (method: string, path: string, body?: object) => {
    const options = { headers: { 'Idempotency-Key': newKey() } };
    const status = method === 'post' ? 201 : 200;
    return (await must(status, world.call(method, `/api/v1/${path}`, body, options))).body;
  };
  const { workspace } = await api('post', 'workspace', { name: 'Weather <b data-x>production' });
  const workspaceId = workspace.id as string;
  const { verify, newMeter, billing } = makeCustomers(world, workspaceId);
  const key = async (fields: object) => (await api('post', 'api-key', { workspaceId, ...fields })).apiKey;
  const token = async (fields: object) => (await api('post', 'access-token', fields)).accessToken;

  for (const [representation, name] of Object.entries({ forecasts: 'Forecasts', archive: 'Archive since 1949' })) {
    const scope = { name, representation, description: HOSTILE };
    await api('post', `workspace/${workspaceId}/scope`, scope);
  }
  for (const [externalMeterId, totalCredits] of Object.entries({
    'northwind-api': '12500.75',
    'harbour-office': '40',
    'alpine-club': '0',
    'fjord-ferries': '99000',
    [HOSTILE]: '2500',
  }))
    await newMeter({ externalMeterId, totalCredits });
  await newMeter({ externalMeterId: 'city-transport', allowOverages: true, spendCap: '2000' });
  const { id: billingId } = await billing('northwind-api');
  const record = `customer-billing/${billingId}`;
  const limit = { name: 'daily', unit: 'credits', limit: '5000', per: 'day', timezone: 'Europe/Oslo' };
  await api('patch', record, { limits: [limit], alerts: [{ name: 'low', when: { usedPercent: 4 } }] });
  for (const [credits, name, priority, days] of [
    ['9000', 'campaign in spring', 20, 60],
    ['250', 'trial', 10, 14],
  ] as const)
    await api('post', `${record}/grant`, { credits, name, priority, expiresAt: Date.now() + days * DAY_MS });
  const monthly = { credits: '1000', every: 'month', timezone: 'Europe/Oslo', name: 'included' };
  await api('post', `${record}/grant-schedule`, monthly);

  const first = await key({
    name: 'Northwind backend',
    customerId: 'northwind',
    externalMeterId: 'northwind-api',
    prefix: 'wx',
    scopes: [{ representation: 'forecasts', read: true }],
    limits: [{ name: 'burst', unit: 'requests', limit: 120, per: 'minute' }],
    metadata: { plan: 'business', [HOSTILE]: HOSTILE },
  });
  await key({ name: 'Harbour office', customerId: 'harbour', externalMeterId: 'harbour-office', prefix: 'wx' });
  const off = await key({ name: 'Alpine club, trial', customerId: 'alpine', enabled: false });
  await key({ name: HOSTILE, customerId: HOSTILE });
  const own = await token({ name: 'Kim Larsen', permissions });
  await token({ name: 'Gateway', permissions: ['key:verify'], workspaceIds: [workspaceId] });
  const old = await token({ name: HOSTILE, permissions: ['key:read', 'key:write'] });
  await api('delete', `access-token/${old.id}`);

  // Usage of the days before, booked as a correction is, in a workspace that was there.
  await world.sql`update workspaces set created_at = now() - interval '60 days' where id = ${workspaceId}`;
  for (let i = 1; i < 30; i++) {
    const day = new Date(Date.now() - i * DAY_MS).toISOString().slice(0, 10);
    for (const [usageName, amount] of Object.entries({
      forecast: (120 + 70 * Math.sin(i / 1.1) + (i % 7) * 9).toFixed(2),
      archive: (60 + 30 * Math.cos(i / 2.3)).toFixed(2),
    }))
      await api('post', `${record}/adjustment`, { amount, usageName, reason: HOSTILE, day });
  }
  for (const billed of [
    { usage: '310.25', usageName: 'forecast' },
    { usage: '122.5', usageName: 'archive' },
    { usage: '25', usageName: 'archive', hold: { expiresIn: 3_600 } },
  ])
    await must(200, verify({ key: first.key, billing: billed }));
  // Refusals of several reasons.
  const hourly = [{ name: HOSTILE.slice(0, 64), unit: 'requests', limit: 5, per: 'hour' }];
  const ferries = await key({ name: 'Fjord ferries', externalMeterId: 'fjord-ferries', limits: hourly });
  for (let i = 0; i < 12; i++) await verify({ key: ferries.key, route: 'GET /timetable', billing: { usage: '1' } });
  for (const usage of ['90000', '0.5'])
    await verify({ key: first.key, route: 'GET /forecasts/{station}', billing: { usage, usageName: 'forecast' } });
  await verify({ key: off.key, route: HOSTILE });
  await eventually('the books have the usage and the refusals, and the alert is told', async () => {
    const { data } = await api('get', `usage/${billingId}`);
    const { alerts } = await api('get', `${record}/alerts`);
    const refused = (await api('get', `verifications/recent?apiKeyId=${off.id}`)).data;
    return data.length >= 60 && alerts.length > 0 && refused.length > 0;
  });
  // Once an hour the consumer writes it itself.
  await world.sql`
    insert into job_watermarks (job, at) values ('reconciled', ${Date.now() - 23 * 60_000}) on conflict do nothing`;
  return {
    workspaceId,
    keyId: first.id,
    billingId,
    webhookId: await makeWebhooks(),
    meterId: await makeMeters(),
    token: own.token,
  };

  // Nothing delivers here: what became of the deliveries is written as the program for webhooks writes it.
  async function makeWebhooks(): Promise<string> {
    const make = async (fields: object) => (await api('post', 'webhook', { workspaceId, ...fields })).webhook;
    await make({ url: 'https://crm.example/in/keytally', events: ['key.created', 'key.rotated'] });
    const { id } = await make({
      url: FAILING,
      events: ['credits.alert', 'grant.expiring'],
      description: 'Finance chat',
    });
    for (let i = 0; i < 3; i++) await api('post', `webhook/${id}/test`);
    await world.sql`update webhooks set failing_since = now() - interval '3 hours' where id = ${id}`;
    await world.sql`
      insert into webhook_tries (delivery_id, number, team_id, at, duration_ms, status, error, answer)
      select id, n, team_id, now() - interval '3 hours' + n * interval '5 minutes', 120 * n,
             case n when 1 then 503 end, case n when 2 then 'connect ECONNREFUSED' end,
             case n when 1 then 'The service is being moved to another building, with all of its cables' end
      from webhook_deliveries, generate_series(1, 2) n where webhook_id = ${id}`;
    await world.sql`
      update webhook_deliveries set attempts = 2, next_at = now() + interval '25 minutes' where webhook_id = ${id}`;
    return id;
  }

  // Nothing sends here: what became of the events is written as the program for webhooks writes it.
  async function makeMeters(): Promise<string> {
    const made = {
      workspaceId,
      kind: 'stripe',
      name: 'Stripe',
      secret: 'sk_test',
      eventNames: { tokens: 'llm_tokens' },
    };
    const { id } = (await api('post', 'meter-destination', made)).destination;
    await world.sql`
      insert into meter_events (id, destination_id, team_id, billing_id, hour, usage_name, number, micros, events, quantity, external_id,
                                event_name, state, error)
      select 'mev_0' || n, ${id}, d.team_id, ${billingId}, d.starts_at - n * interval '1 hour', 'tokens', 0, 1234567890, 40, 1234000000,
             'cus_NciAYcXfLnqBoz', 'llm_tokens', (array['SENT', 'FAILED', 'CARRIED', 'WAITING', 'LEFT_OUT'])[n],
             case n when 2 then '400: No such customer' end
      from meter_destinations d, generate_series(1, 5) n where d.id = ${id}`;
    await world.sql`
      update meter_destinations set last_sent_at = now(), failing_since = now() - interval '3 hours', last_error = '400: No such customer'
      where id = ${id}`;
    return id;
  }
}
