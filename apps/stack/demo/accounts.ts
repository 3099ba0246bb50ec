import type { Keytally } from '../../../clients/node/index.ts';

const TWO_DAYS_MS = 2 * 24 * 60 * 60 * 1000;
const A_DAY_SECONDS = 24 * 60 * 60;
const WEBHOOK = 'Made by make demo: nobody is there';

/** Makes what a billing record can have beyond one sum of credits, and a webhook that is told of it, and fails. */
export async function makeAccounts(client: Keytally, workspaceId: string): Promise<void> {
  await makeWebhook(client, workspaceId);
  const wayne = await newAccount('Wayne');
  const trial = { bid: wayne.bid, name: 'trial', credits: '5', priority: 10, expiresAt: Date.now() + TWO_DAYS_MS };
  await client.grants.create(trial);
  await wayne.use('3');

  const tyrell = await newAccount('Tyrell');
  const { hold } = await tyrell.use('8', { hold: { expiresIn: 60 } });
  await client.holds.capture({ holdId: hold?.id ?? '', usage: '2.5' });
  // These stay open: for whoever looks at the console.
  for (const usage of ['1.25', '0.75']) await tyrell.use(usage, { hold: { expiresIn: A_DAY_SECONDS } });

  const daily = { name: 'daily', unit: 'requests' as const, limit: 2, per: 'day' as const, timezone: 'Asia/Kathmandu' };
  const soylent = await newAccount('Soylent', { limits: [daily] });
  for (let i = 0; i < 3; i++) await soylent.use('1');

  const stark = await newAccount('Stark', { alerts: [{ name: 'low', when: { usedPercent: 80 } }] });
  await stark.use('8.1');
  console.log(
    'and customers with a grant that ends soon, open holds, a daily limit and an alert; a webhook is told of it\n',
  );

  async function newAccount(name: string, more: object = {}) {
    const externalMeterId = name.toLowerCase();
    const { billing } = await client.billing.create({ workspaceId, externalMeterId, totalCredits: '10', ...more });
    const fields = { name: `${name} backend`, customerId: `cus_${externalMeterId}`, externalMeterId };
    const { key } = (await client.apiKeys.create({ workspaceId, ...fields })).apiKey;
    const use = (usage: string, how: { hold?: { expiresIn: number } } = {}) =>
      client.verify({ key, billing: { usage, usageName: 'tokens', ...how } });
    return { bid: billing.id, use };
  }
}

/** Makes a webhook that fails, in place of the last demo's: a team has few. */
async function makeWebhook(client: Keytally, workspaceId: string): Promise<void> {
  for (const { id, description } of (await client.webhooks.list({ limit: 100 })).webhooks)
    if (description === WEBHOOK) await client.webhooks.delete({ wid: id });
  await client.webhooks.create({
    workspaceId,
    // Nobody ever gets a name under example.com.
    url: 'https://hooks.example.com/keytally',
    events: ['credits.alert', 'credits.exhausted', 'limit.reached', 'grant.expiring', 'hold.expired'],
    description: WEBHOOK,
  });
}
