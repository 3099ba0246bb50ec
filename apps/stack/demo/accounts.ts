import { setTimeout as sleep } from 'node:timers/promises';
import type { Keytally } from '../../../clients/node/index.ts';
import { table } from './print.ts';

type Shown = { what: string; saw: string; expected: string };
type Account = { bid: string; key: string };

const SOON_MS = 2 * 24 * 60 * 60 * 1000;
const A_DAY_SECONDS = 24 * 60 * 60;
const TOLD_WITHIN_MS = 15_000;
const LOOK_EVERY_MS = 100;

/** Shows what a billing record can do beyond one sum of credits, each in a line; gives whether all of it went as it should. */
export async function showAccounts(client: Keytally, workspaceId: string): Promise<boolean> {
  const account = async (name: string, more: object = {}): Promise<Account> => {
    const externalMeterId = name.toLowerCase();
    const { billing } = await client.billing.create({ workspaceId, externalMeterId, totalCredits: '10', ...more });
    const key = { name: `${name} backend`, customerId: `cus_${externalMeterId}`, externalMeterId };
    const { apiKey } = await client.apiKeys.create({ workspaceId, ...key });
    return { bid: billing.id, key: apiKey.key };
  };
  const webhook = await makeWebhook(client, workspaceId);
  const [wayne, tyrell, soylent, stark] = await Promise.all([
    account('Wayne'),
    account('Tyrell'),
    account('Soylent', {
      limits: [{ name: 'daily', unit: 'requests', limit: 2, per: 'day', timezone: 'Asia/Kathmandu' }],
    }),
    account('Stark', { alerts: [{ name: 'low', when: { usedPercent: 80 } }] }),
  ]);
  const shown = await Promise.all([
    showGrant(client, wayne),
    showHold(client, tyrell),
    showLimit(client, soylent),
    showAlert(client, stark),
    showWebhook(client, webhook),
  ]);
  console.log(
    table(
      ['accounts', 'answered'],
      shown.map(({ what, saw }) => [what, saw]),
    ),
  );
  const wrong = shown.filter(({ saw, expected }) => saw !== expected);
  for (const { what, expected } of wrong) console.log(`\nWRONG: ${what} should have answered: ${expected}`);
  console.log();
  return wrong.length === 0;
}

async function showGrant(client: Keytally, { bid, key }: Account): Promise<Shown> {
  const trial = { bid, name: 'trial', credits: '5', priority: 10, expiresAt: Date.now() + SOON_MS };
  const { grant } = await client.grants.create(trial);
  await client.verify({ key, billing: { usage: '3', usageName: 'requests' } });
  const { remainingCredits } = (await client.grants.get({ bid, gid: grant.id })).grant;
  const { availableCredits } = (await client.billing.getById({ bid })).billing;
  return {
    what: '5 trial credits that end in two days, beside 10 that were bought; 3 are used',
    saw: `${remainingCredits} of the trial and ${availableCredits} in all are left`,
    expected: '2 of the trial and 12 in all are left',
  };
}

async function showHold(client: Keytally, { key }: Account): Promise<Shown> {
  const { hold, billing } = await client.verify({
    key,
    billing: { usage: '8', usageName: 'tokens', hold: { expiresIn: 60 } },
  });
  const captured = await client.holds.capture({ holdId: hold?.id ?? '', usage: '2.5' });
  const { usedCredits, availableCredits } = captured.billing;
  // These stay open: for whoever looks at the console.
  for (const usage of ['1.25', '0.75'])
    await client.verify({ key, billing: { usage, usageName: 'tokens', hold: { expiresIn: A_DAY_SECONDS } } });
  return {
    what: 'hold the 8 credits that a call may cost, capture the 2.5 that it did',
    saw: `${billing?.heldCredits} held, then ${usedCredits} used and ${availableCredits} left`,
    expected: '8 held, then 2.5 used and 7.5 left',
  };
}

async function showLimit(client: Keytally, { key }: Account): Promise<Shown> {
  const statuses: string[] = [];
  for (let i = 0; i < 3; i++)
    statuses.push((await client.verify({ key, billing: { usage: '1', usageName: 'requests' } })).status);
  return {
    what: '2 requests a day, until midnight in Kathmandu; 3 are asked for',
    saw: statuses.join(', '),
    expected: 'VALID, VALID, RATE_LIMITED',
  };
}

async function showAlert(client: Keytally, { bid, key }: Account): Promise<Shown> {
  await client.verify({ key, billing: { usage: '8.1', usageName: 'requests' } });
  const told = await untilThere(async () => (await client.billing.alerts({ bid })).alerts[0]);
  return {
    what: 'tell when 80 % of 10 credits are used; 8.1 are used',
    saw: told ? `${told.name}, at ${told.usedCredits}` : 'nothing',
    expected: 'low, at 8.1',
  };
}

async function showWebhook(client: Keytally, wid: string): Promise<Shown> {
  const tried = await untilThere(async () =>
    (await client.webhooks.deliveries({ wid })).deliveries.find(({ tries }) => tries.length > 0),
  );
  return {
    what: 'tell a webhook what happened here; its host does not exist',
    saw: !tried ? 'no try' : tried.state === 'WAITING' ? 'tried, and to be tried again' : tried.state,
    expected: 'tried, and to be tried again',
  };
}

const WEBHOOK = 'Made by make demo: nobody is there';

/** Makes a webhook that fails, in place of the last demo's: a team has few. */
async function makeWebhook(client: Keytally, workspaceId: string): Promise<string> {
  for (const { id, description } of (await client.webhooks.list({ limit: 100 })).webhooks)
    if (description === WEBHOOK) await client.webhooks.delete({ wid: id });
  const { webhook } = await client.webhooks.create({
    workspaceId,
    // Nobody ever gets a name under example.com.
    url: 'https://hooks.example.com/keytally',
    events: ['credits.alert', 'credits.exhausted', 'limit.reached', 'grant.expiring', 'hold.expired'],
    description: WEBHOOK,
  });
  return webhook.id;
}

/** Waits until something is there; gives undefined if it never is. */
async function untilThere<Value>(look: () => Promise<Value | undefined>): Promise<Value | undefined> {
  const until = performance.now() + TOLD_WITHIN_MS;
  let found = await look();
  while (!found && performance.now() < until) {
    await sleep(LOOK_EVERY_MS);
    found = await look();
  }
  return found;
}
