import type { Keytally } from '../../../clients/node/index.ts';
import { formatCredits } from '../../../shared/values/credits.ts';
import { usedOn, type Customer } from './customer.ts';
import type { Traffic } from './traffic.ts';

type Plan = Pick<Customer, 'usageNames' | 'cost' | 'past'> & {
  /** Credits for the demo's own calls, beside what the days before have used. */
  credits?: number;
  more?: object;
};
type KeyFields = Omit<Parameters<Keytally['apiKeys']['create']>[0], 'name' | 'workspaceId'>;

const YEAR_MS = 365 * 86_400_000;
const ENDS_SOON_MS = 3_000;

/** Makes the customers of a workspace, with credits for so many calls now and so many days before, and what is to be called. */
export async function makeCast(client: Keytally, workspaceId: string, calls: number, days: number) {
  for (const [representation, name] of [
    ['documents', 'Documents'],
    ['reports', 'Reports'],
  ] as const)
    await client.scopes.create({ id: workspaceId, name, representation });

  const acme = await newCustomer('acme', {
    usageNames: ['requests', 'searches', 'exports'],
    cost: '1',
    credits: 5 * calls,
    past: {
      callsPerDay: 5_000,
      curve: { growth: 0.8, weekend: 0.35, night: 0.08 },
      refused: [
        { key: 0, status: 'INVALID_SCOPES', reason: 'SCOPE_MISSING', limit: '', share: 0.02 },
        { key: 1, status: 'RATE_LIMITED', reason: 'RATE_LIMIT', limit: 'key/rateLimitPerSecond', share: 0.05 },
      ],
    },
  });
  const globex = await newCustomer('globex', {
    usageNames: ['tokens', 'images'],
    cost: '0.002317',
    more: { allowOverages: true, spendCap: '5000' },
    past: { callsPerDay: 3_600, curve: { growth: 2, weekend: 0.8, night: 0.4 }, refused: [] },
  });
  const initech = await newCustomer('initech', {
    usageNames: ['pages'],
    cost: '0.25',
    credits: calls / 50,
    past: { callsPerDay: 1_200, curve: { growth: 0.1, weekend: 0.1, night: 0.02 }, refused: [] },
  });
  const umbrella = await newCustomer('umbrella', {
    usageNames: ['requests', 'searches'],
    cost: '1',
    credits: calls / 18,
    more: { alerts: [{ name: 'running low', when: { available: String(calls / 80) } }] },
    past: { callsPerDay: 700, curve: { growth: 0.4, weekend: 0.6, night: 0.2 }, refused: [] },
  });
  const hooli = await newCustomer('hooli', {
    usageNames: ['searches'],
    cost: '0.5',
    credits: calls,
    more: { limits: [{ name: 'daily', unit: 'credits', limit: String(calls / 80), per: 'day' }] },
    past: {
      callsPerDay: 250,
      curve: { growth: 1.2, weekend: 0.5, night: 0.1 },
      refused: [{ key: 0, status: 'USAGE_LIMITED', reason: 'LIMIT_REACHED', limit: 'billing/daily', share: 0.1 }],
    },
  });
  const northwind = await newCustomer('northwind-traders-of-the-north-atlantic', {
    usageNames: ['requests'],
    cost: '1',
    credits: calls / 2,
    past: {
      callsPerDay: 300,
      curve: { growth: 0.3, weekend: 0.2, night: 0.05 },
      refused: [{ key: 0, status: 'INVALID', reason: 'IP_NOT_ALLOWED', limit: '', share: 0.15 }],
    },
  });

  const production = await newKey(acme, 'Acme production', {
    metadata: { plan: 'business', contact: 'ops@acme.example' },
  });
  const mobile = await newKey(acme, 'Acme mobile app', { rateLimitPerSecond: 50 });
  const backend = await newKey(globex, 'Globex backend', { expiresAt: Date.now() + YEAR_MS });
  const scanner = await newKey(initech, 'Initech scanner');
  const clinics = await newKey(umbrella, 'Umbrella clinics');
  const search = await newKey(hooli, 'Hooli search');
  const office = await newKey(northwind, 'Northwind Traders, from the office alone', {
    allowedIPs: ['203.0.113.0/24'],
  });
  const laptop = await newKey(acme, 'Acme laptop that was stolen', { enabled: false });
  const fair = await newKey(acme, 'Acme trade fair', { expiresAt: Date.now() + ENDS_SOON_MS });

  const representation = 'documents';
  const mistyped = production.slice(0, -1) + (production.endsWith('0') ? '1' : '0');
  const traffic: Traffic[] = [
    { weight: 40, customer: acme, key: production, representation, answers: ['VALID'] },
    { weight: 24, customer: globex, key: backend, representation, answers: ['VALID'] },
    { weight: 10, customer: initech, key: scanner, representation, answers: ['VALID', 'USAGE_LIMITED'] },
    { weight: 6, customer: acme, key: mobile, representation, answers: ['VALID', 'RATE_LIMITED'] },
    { weight: 5, customer: umbrella, key: clinics, representation, answers: ['VALID'] },
    { weight: 4, customer: hooli, key: search, representation, answers: ['VALID', 'USAGE_LIMITED'] },
    { weight: 4, customer: acme, key: production, representation: 'reports', answers: ['INVALID_SCOPES'] },
    { weight: 2, customer: northwind, key: office, representation, ip: '203.0.113.9', answers: ['VALID'] },
    { weight: 1, customer: northwind, key: office, representation, ip: '198.51.100.7', answers: ['INVALID'] },
    { weight: 1, customer: acme, key: laptop, representation, answers: ['DISABLED'] },
    { weight: 1, customer: acme, key: fair, representation, answers: ['VALID', 'EXPIRED'] },
    { weight: 2, customer: acme, key: mistyped, representation, answers: ['INVALID'] },
  ];
  return { customers: [acme, globex, initech, umbrella, hooli, northwind], traffic };

  async function newCustomer(externalMeterId: string, { credits, more, ...plan }: Plan): Promise<Customer> {
    const totalCredits = formatCredits(usedOn(days, plan) + Math.round(credits ?? 0) * 1_000_000);
    const { billing } = await client.billing.create({
      workspaceId,
      externalMeterId,
      ...(credits !== undefined && { totalCredits }),
      ...more,
    });
    const customerId = `cus_${externalMeterId}`;
    return { ...plan, workspaceId, externalMeterId, customerId, billingId: billing.id, keys: [] };
  }

  async function newKey(customer: Customer, name: string, more: KeyFields = {}): Promise<string> {
    const { externalMeterId, customerId } = customer;
    const scopes = [{ representation: 'documents', create: true, read: true }];
    const fields = { workspaceId, name, customerId, externalMeterId, scopes, ...more };
    const { id, key } = (await client.apiKeys.create(fields)).apiKey;
    customer.keys.push({ id, key });
    return key;
  }
}
