import type { Keytally } from '../../../clients/node/index.ts';
import { formatCredits, parseCredits } from '../../../shared/values/credits.ts';

/** A customer of the demo's workspace: a billing record, and the keys that draw on it. */
export type Customer = {
  workspaceId: string;
  externalMeterId: string;
  customerId: string;
  billingId: string;
  keyIds: string[];
  /** What its calls are counted as, most of them as the first. */
  usageNames: string[];
  cost: string;
  callsPerDay: number;
};

/** One kind of call among the traffic, and how it may be answered. */
export type Traffic = {
  weight: number;
  customer: Customer;
  key: string;
  answers: string[];
  /** The scope that is asked for, `documents` by default, and the address that it comes from. */
  asked: { representation?: string; ip?: string };
};

/** One call and how it was answered. */
export type Seen = { traffic: Traffic; status: string };

const YEAR_MS = 365 * 86_400_000;
const ENDS_SOON_MS = 3_000;
const NORTHWIND = 'northwind-traders-of-the-north-atlantic';
// Multiples of it lie evenly between 0 and 1.
const GOLDEN = 0.6180339887;

/** Makes the customers of a workspace, with credits for so many calls now and so many days before, and what is to be called. */
export async function makeCast(client: Keytally, workspaceId: string, calls: number, days: number) {
  for (const name of ['Documents', 'Reports'])
    await client.scopes.create({ id: workspaceId, name, representation: name.toLowerCase() });

  const alerts = [{ name: 'running low', when: { available: String(calls / 80) } }];
  const limits = [{ name: 'daily', unit: 'credits' as const, limit: String(calls / 80), per: 'day' as const }];
  const customers = new Map<string, Customer>();
  for (const [externalMeterId, names, cost, callsPerDay, more, credits] of [
    ['acme', 'requests searches exports', '1', 500, {}, 5 * calls],
    ['globex', 'tokens images', '0.002317', 360, { allowOverages: true, spendCap: '5000' }],
    ['initech', 'pages', '0.25', 120, {}, calls / 50],
    ['umbrella', 'requests searches', '1', 70, { alerts }, calls / 18],
    ['hooli', 'searches', '0.5', 25, { limits }, calls],
    [NORTHWIND, 'requests', '1', 30, {}, calls / 2],
  ] as const) {
    const used = usedOn(days, { callsPerDay, cost });
    const limited = credits && { totalCredits: formatCredits(used + Math.round(credits) * 1_000_000) };
    const { billing } = await client.billing.create({ workspaceId, externalMeterId, ...limited, ...more });
    const ids = { workspaceId, externalMeterId, customerId: `cus_${externalMeterId}`, billingId: billing.id };
    customers.set(externalMeterId, { ...ids, usageNames: names.split(' '), cost, callsPerDay, keyIds: [] });
  }

  const allowedIPs = ['203.0.113.0/24'];
  const keys = new Map<string, Pick<Traffic, 'customer' | 'key'>>();
  for (const [label, meter, name, more] of [
    // First, before its end has come on a busy machine.
    ['fair', 'acme', 'Acme trade fair', { expiresAt: Date.now() + ENDS_SOON_MS }],
    ['production', 'acme', 'Acme production', { metadata: { plan: 'business', contact: 'ops@acme.example' } }],
    ['mobile', 'acme', 'Acme mobile app', { rateLimitPerSecond: 50 }],
    ['backend', 'globex', 'Globex backend', { expiresAt: Date.now() + YEAR_MS }],
    ['scanner', 'initech', 'Initech scanner', {}],
    ['clinics', 'umbrella', 'Umbrella clinics', {}],
    ['search', 'hooli', 'Hooli search', {}],
    ['office', NORTHWIND, 'Northwind Traders, from the office alone', { allowedIPs }],
    ['laptop', 'acme', 'Acme laptop that was stolen', { enabled: false }],
  ] as const) {
    const customer = customers.get(meter)!;
    const scopes = [{ representation: 'documents', create: true, read: true }];
    const { externalMeterId, customerId } = customer;
    const fields = { workspaceId, name, customerId, externalMeterId, scopes, ...more };
    const { id, key } = (await client.apiKeys.create(fields)).apiKey;
    customer.keyIds.push(id);
    keys.set(label, { customer, key });
  }
  const { customer, key } = keys.get('production')!;
  keys.set('mistyped', { customer, key: key.slice(0, -1) + (key.endsWith('0') ? '1' : '0') });

  const traffic = (
    [
      [40, 'production', 'VALID'],
      [24, 'backend', 'VALID'],
      [10, 'scanner', 'VALID USAGE_LIMITED'],
      [6, 'mobile', 'VALID RATE_LIMITED'],
      [5, 'clinics', 'VALID'],
      [4, 'search', 'VALID USAGE_LIMITED'],
      [4, 'production', 'INVALID_SCOPES', { representation: 'reports' }],
      [2, 'office', 'VALID', { ip: '203.0.113.9' }],
      [1, 'office', 'INVALID', { ip: '198.51.100.7' }],
      [1, 'laptop', 'DISABLED'],
      [1, 'fair', 'VALID EXPIRED'],
      [2, 'mistyped', 'INVALID'],
    ] as const
  ).map(([weight, label, answers, asked = {}]): Traffic => {
    return { weight, ...keys.get(label)!, answers: answers.split(' '), asked };
  });
  return { customers: [...customers.values()], traffic };
}

/** How many micro-credits a customer used on so many days before. */
export function usedOn(days: number, { callsPerDay, cost }: Pick<Customer, 'callsPerDay' | 'cost'>): number {
  return days * callsPerDay * parseCredits(cost)!;
}

/** A number between 0 and 1; those of the first n calls lie evenly, and are the same in each run. */
export function shareOf(call: number): number {
  return (call * GOLDEN) % 1;
}
