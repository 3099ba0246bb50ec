import type { Keytally } from '../../../clients/node/index.ts';
import { formatCredits, parseCredits } from '../../../shared/values/credits.ts';

/** A customer of the demo's workspace: a billing record, and the keys that draw on it. */
export type Customer = Plan & {
  workspaceId: string;
  externalMeterId: string;
  customerId: string;
  billingId: string;
  keys: { id: string; key: string }[];
};

type Plan = {
  /** What its calls are counted as, most of them as the first. */
  usageNames: readonly [string, ...string[]];
  /** What each call costs. */
  cost: string;
  /** Its calls on each of the days before, and by how much more the last of them has than the first: 1 is twice as much. */
  callsPerDay: number;
  growth: number;
};

/** One kind of call among the traffic, and how it may be answered. */
export type Traffic = {
  weight: number;
  customer: Customer;
  key: string;
  /** The scope that is asked for, `documents` by default. */
  representation?: string;
  ip?: string;
  answers: readonly string[];
};

const YEAR_MS = 365 * 86_400_000;
const ENDS_SOON_MS = 3_000;
// Multiples of it lie evenly between 0 and 1.
const GOLDEN = 0.6180339887;

/** Makes the customers of a workspace, with credits for so many calls now and so many days before, and what is to be called. */
export async function makeCast(client: Keytally, workspaceId: string, calls: number, days: number) {
  for (const name of ['Documents', 'Reports'])
    await client.scopes.create({ id: workspaceId, name, representation: name.toLowerCase() });

  const daily = { name: 'daily', unit: 'credits' as const, limit: String(calls / 80), per: 'day' as const };
  const low = { name: 'running low', when: { available: String(calls / 80) } };
  const plans: [meter: string, plan: Plan, credits?: number | undefined, more?: object][] = [
    [
      'acme',
      { usageNames: ['requests', 'searches', 'exports'], cost: '1', callsPerDay: 5_000, growth: 0.8 },
      5 * calls,
    ],
    [
      'globex',
      { usageNames: ['tokens', 'images'], cost: '0.002317', callsPerDay: 3_600, growth: 2 },
      undefined,
      { allowOverages: true, spendCap: '5000' },
    ],
    ['initech', { usageNames: ['pages'], cost: '0.25', callsPerDay: 1_200, growth: 0.1 }, calls / 50],
    [
      'umbrella',
      { usageNames: ['requests', 'searches'], cost: '1', callsPerDay: 700, growth: 0.4 },
      calls / 18,
      { alerts: [low] },
    ],
    ['hooli', { usageNames: ['searches'], cost: '0.5', callsPerDay: 250, growth: 1.2 }, calls, { limits: [daily] }],
    [
      'northwind-traders-of-the-north-atlantic',
      { usageNames: ['requests'], cost: '1', callsPerDay: 300, growth: 0.3 },
      calls / 2,
    ],
  ];
  const customers: Customer[] = [];
  for (const [externalMeterId, plan, credits, more] of plans) {
    const totalCredits = formatCredits(usedOn(days, plan) + Math.round(credits ?? 0) * 1_000_000);
    const limited = credits === undefined ? {} : { totalCredits };
    const { billing } = await client.billing.create({ workspaceId, externalMeterId, ...limited, ...more });
    const ids = { workspaceId, externalMeterId, customerId: `cus_${externalMeterId}`, billingId: billing.id };
    customers.push({ ...plan, ...ids, keys: [] });
  }

  const [acme, globex, initech, umbrella, hooli, northwind] = customers as [Customer, ...Customer[]];
  const production = await newKey(acme, 'Acme production', {
    metadata: { plan: 'business', contact: 'ops@acme.example' },
  });
  const mobile = await newKey(acme, 'Acme mobile app', { rateLimitPerSecond: 50 });
  const backend = await newKey(globex!, 'Globex backend', { expiresAt: Date.now() + YEAR_MS });
  const scanner = await newKey(initech!, 'Initech scanner');
  const clinics = await newKey(umbrella!, 'Umbrella clinics');
  const search = await newKey(hooli!, 'Hooli search');
  const office = await newKey(northwind!, 'Northwind Traders, from the office alone', {
    allowedIPs: ['203.0.113.0/24'],
  });
  const laptop = await newKey(acme, 'Acme laptop that was stolen', { enabled: false });
  const fair = await newKey(acme, 'Acme trade fair', { expiresAt: Date.now() + ENDS_SOON_MS });
  const mistyped = { customer: acme, key: production.key.slice(0, -1) + (production.key.endsWith('0') ? '1' : '0') };

  const traffic: Traffic[] = [
    { weight: 40, ...production, answers: ['VALID'] },
    { weight: 24, ...backend, answers: ['VALID'] },
    { weight: 10, ...scanner, answers: ['VALID', 'USAGE_LIMITED'] },
    { weight: 6, ...mobile, answers: ['VALID', 'RATE_LIMITED'] },
    { weight: 5, ...clinics, answers: ['VALID'] },
    { weight: 4, ...search, answers: ['VALID', 'USAGE_LIMITED'] },
    { weight: 4, ...production, representation: 'reports', answers: ['INVALID_SCOPES'] },
    { weight: 2, ...office, ip: '203.0.113.9', answers: ['VALID'] },
    { weight: 1, ...office, ip: '198.51.100.7', answers: ['INVALID'] },
    { weight: 1, ...laptop, answers: ['DISABLED'] },
    { weight: 1, ...fair, answers: ['VALID', 'EXPIRED'] },
    { weight: 2, ...mistyped, answers: ['INVALID'] },
  ];
  return { customers, traffic };

  async function newKey(customer: Customer, name: string, more: object = {}) {
    const { externalMeterId, customerId } = customer;
    const scopes = [{ representation: 'documents', create: true, read: true }];
    const fields = { workspaceId, name, customerId, externalMeterId, scopes, ...more };
    const { id, key } = (await client.apiKeys.create(fields)).apiKey;
    customer.keys.push({ id, key });
    return { customer, key };
  }
}

/** How many micro-credits a customer used on so many days before. */
export function usedOn(days: number, { callsPerDay, cost }: Pick<Customer, 'callsPerDay' | 'cost'>): number {
  return days * callsPerDay * parseCredits(cost)!;
}

/** A number between 0 and 1; those of the first n calls lie evenly, and are the same in each run. */
export function shareOf(call: number): number {
  return (call * GOLDEN) % 1;
}

/** What a call of a customer is counted as, by its number. */
export function usageNameOf({ usageNames }: Pick<Customer, 'usageNames'>, call: number): string {
  return usageNames[Math.floor(shareOf(call) ** 2 * usageNames.length)]!;
}
