import type { Keytally } from '../../../clients/node/index.ts';

const DAY_SECONDS = 24 * 60 * 60;
const WEBHOOK = 'Made by make demo: nobody is there';

/** Makes a grant that ends soon, holds that stay open for whoever looks at the console, and a webhook that is told of all, and fails. */
export async function makeAccounts(client: Keytally, workspaceId: string): Promise<void> {
  // In place of the last demo's: a team has few.
  for (const { id, description } of (await client.webhooks.list({ limit: 100 })).webhooks)
    if (description === WEBHOOK) await client.webhooks.delete({ wid: id });
  await client.webhooks.create({
    workspaceId,
    // Nobody ever gets a name under example.com.
    url: 'https://hooks.example.com/keytally',
    events: ['credits.alert', 'credits.exhausted', 'limit.reached', 'grant.expiring', 'hold.expired'],
    description: WEBHOOK,
  });

  const wayne = await newAccount('Wayne');
  const expiresAt = Date.now() + 2 * DAY_SECONDS * 1_000;
  await client.grants.create({ bid: wayne.bid, name: 'trial', credits: '5', priority: 10, expiresAt });
  await wayne.use('3');

  const tyrell = await newAccount('Tyrell');
  const { hold } = await tyrell.use('8', { expiresIn: 60 });
  await client.holds.capture({ holdId: hold?.id ?? '', usage: '2.5' });
  for (const usage of ['1.25', '0.75']) await tyrell.use(usage, { expiresIn: DAY_SECONDS });
  console.log('and customers with a grant that ends soon and open holds; a webhook is told of it\n');

  async function newAccount(name: string) {
    const externalMeterId = name.toLowerCase();
    const { billing } = await client.billing.create({ workspaceId, externalMeterId, totalCredits: '10' });
    const fields = { name: `${name} backend`, customerId: `cus_${externalMeterId}`, externalMeterId };
    const { key } = (await client.apiKeys.create({ workspaceId, ...fields })).apiKey;
    const use = (usage: string, hold?: { expiresIn: number }) =>
      client.verify({ key, billing: { usage, usageName: 'tokens', ...(hold && { hold }) } });
    return { bid: billing.id, use };
  }
}
