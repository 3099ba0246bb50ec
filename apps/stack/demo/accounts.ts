import { setTimeout as sleep } from 'node:timers/promises';
import type { Keytally } from '../../../clients/node/index.ts';
import { table } from './print.ts';

type Shown = { what: string; saw: string; expected: string };
type Account = { bid: string; key: string };

const WEEK_MS = 7 * 24 * 60 * 60 * 1000;
const TOLD_WITHIN_MS = 15_000;

/** Shows what a billing record can do beyond one sum of credits, each in a line; gives whether all of it went as it should. */
export async function showAccounts(client: Keytally, workspaceId: string): Promise<boolean> {
  const account = async (externalMeterId: string, more: object = {}): Promise<Account> => {
    const { billing } = await client.billing.create({ workspaceId, externalMeterId, totalCredits: '10', ...more });
    const { apiKey } = await client.apiKeys.create({ name: externalMeterId, workspaceId, externalMeterId });
    return { bid: billing.id, key: apiKey.key };
  };
  const [trial, model, daily, warned] = await Promise.all([
    account('trial'),
    account('model'),
    account('daily', {
      limits: [{ name: 'daily', unit: 'requests', limit: 2, per: 'day', timezone: 'Asia/Kathmandu' }],
    }),
    account('warned', { alerts: [{ name: 'low', when: { usedPercent: 80 } }] }),
  ]);
  const shown = await Promise.all([
    showGrant(client, trial),
    showHold(client, model),
    showLimit(client, daily),
    showAlert(client, warned),
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
  const trial = { bid, name: 'trial', credits: '5', priority: 10, expiresAt: Date.now() + WEEK_MS };
  const { grant } = await client.grants.create(trial);
  await client.verify({ key, billing: { usage: '3' } });
  const { remainingCredits } = (await client.grants.get({ bid, gid: grant.id })).grant;
  const { availableCredits } = (await client.billing.getById({ bid })).billing;
  return {
    what: '5 trial credits that end in a week, beside 10 that were bought; 3 are used',
    saw: `${remainingCredits} of the trial and ${availableCredits} in all are left`,
    expected: '2 of the trial and 12 in all are left',
  };
}

async function showHold(client: Keytally, { key }: Account): Promise<Shown> {
  const { hold, billing } = await client.verify({ key, billing: { usage: '8', hold: { expiresIn: 60 } } });
  const captured = await client.holds.capture({ holdId: hold?.id ?? '', usage: '2.5' });
  const { usedCredits, availableCredits } = captured.billing;
  return {
    what: 'hold the 8 credits that a call may cost, capture the 2.5 that it did',
    saw: `${billing?.heldCredits} held, then ${usedCredits} used and ${availableCredits} left`,
    expected: '8 held, then 2.5 used and 7.5 left',
  };
}

async function showLimit(client: Keytally, { key }: Account): Promise<Shown> {
  const statuses: string[] = [];
  for (let i = 0; i < 3; i++) statuses.push((await client.verify({ key })).status);
  return {
    what: '2 requests a day, until midnight in Kathmandu; 3 are asked for',
    saw: statuses.join(', '),
    expected: 'VALID, VALID, RATE_LIMITED',
  };
}

async function showAlert(client: Keytally, { bid, key }: Account): Promise<Shown> {
  const until = performance.now() + TOLD_WITHIN_MS;
  await client.verify({ key, billing: { usage: '8.1' } });
  let [told] = (await client.billing.alerts({ bid })).alerts;
  while (!told && performance.now() < until) {
    await sleep(100);
    [told] = (await client.billing.alerts({ bid })).alerts;
  }
  return {
    what: 'tell when 80 % of 10 credits are used; 8.1 are used',
    saw: told ? `${told.name}, at ${told.usedCredits}` : 'nothing',
    expected: 'low, at 8.1',
  };
}
