import type { Contract } from './contract.ts';
import { JSON_TYPE } from './send.ts';

/** The client's name for each operation. `verify` is separate, because it may have another address. */
export const operations = {
  apiKeys: {
    create: 'post /api/v1/api-key',
    import: 'post /api/v1/api-key/import',
    list: 'get /api/v1/workspace/{id}/api-keys',
    get: 'get /api/v1/workspace/{id}/api-key/{akid}',
    update: 'patch /api/v1/workspace/{id}/api-key/{akid}',
    rotate: 'post /api/v1/workspace/{id}/api-key/{akid}/rotate',
    endEarlierSecrets: 'delete /api/v1/workspace/{id}/api-key/{akid}/earlier-secrets',
    delete: 'delete /api/v1/workspace/{id}/api-key/{akid}',
    leaked: 'post /api/v1/api-key/leaked',
  },
  workspaces: {
    create: 'post /api/v1/workspace',
    list: 'get /api/v1/workspace',
    get: 'get /api/v1/workspace/{id}',
    update: 'patch /api/v1/workspace/{id}',
    delete: 'delete /api/v1/workspace/{id}',
    proof: 'get /api/v1/workspace/{id}/proof',
    closeMonth: 'post /api/v1/workspace/{id}/close',
  },
  scopes: {
    create: 'post /api/v1/workspace/{id}/scope',
    list: 'get /api/v1/workspace/{id}/scopes',
    get: 'get /api/v1/workspace/{id}/scope/{sid}',
    update: 'patch /api/v1/workspace/{id}/scope/{sid}',
    delete: 'delete /api/v1/workspace/{id}/scope/{sid}',
  },
  billing: {
    create: 'post /api/v1/customer-billing',
    list: 'get /api/v1/workspace/{id}/customer-billings',
    get: 'get /api/v1/customer-billing',
    getById: 'get /api/v1/customer-billing/{bid}',
    refill: 'post /api/v1/customer-billing/refill',
    update: 'patch /api/v1/customer-billing/{bid}',
    ledger: 'get /api/v1/customer-billing/{bid}/ledger',
    alerts: 'get /api/v1/customer-billing/{bid}/alerts',
    adjust: 'post /api/v1/customer-billing/{bid}/adjustment',
    statement: 'get /api/v1/customer-billing/{bid}/statement',
    statements: 'get /api/v1/statements',
    statementsCsv: 'get /api/v1/statements as text/csv',
    statementCsv: 'get /api/v1/customer-billing/{bid}/statement as text/csv',
    reconciliation: 'get /api/v1/customer-billing/{bid}/reconciliation',
  },
  grants: {
    create: 'post /api/v1/customer-billing/{bid}/grant',
    list: 'get /api/v1/customer-billing/{bid}/grants',
    get: 'get /api/v1/customer-billing/{bid}/grant/{gid}',
    void: 'post /api/v1/customer-billing/{bid}/grant/{gid}/void',
  },
  plans: {
    create: 'post /api/v1/workspace/{id}/plan',
    list: 'get /api/v1/workspace/{id}/plans',
    get: 'get /api/v1/workspace/{id}/plan/{pid}',
    update: 'patch /api/v1/workspace/{id}/plan/{pid}',
    delete: 'delete /api/v1/workspace/{id}/plan/{pid}',
  },
  holds: {
    capture: 'post /api/v1/usage/capture',
    release: 'post /api/v1/usage/release',
    extend: 'post /api/v1/usage/extend',
    list: 'get /api/v1/customer-billing/{bid}/holds',
  },
  grantSchedules: {
    create: 'post /api/v1/customer-billing/{bid}/grant-schedule',
    list: 'get /api/v1/customer-billing/{bid}/grant-schedules',
    delete: 'delete /api/v1/customer-billing/{bid}/grant-schedule/{sid}',
  },
  usage: {
    daily: 'get /api/v1/usage/{bid}',
    list: 'get /api/v1/usage',
    listCsv: 'get /api/v1/usage as text/csv',
    csv: 'get /api/v1/usage/{bid} as text/csv',
  },
  verifications: {
    count: 'get /api/v1/verifications',
    recent: 'get /api/v1/verifications/recent',
    cancel: 'post /api/v1/api-key/verify/cancel',
  },
  jwts: {
    create: 'post /api/v1/jwt',
    verify: 'post /api/v1/jwt/verify',
    revoke: 'post /api/v1/jwt/revoke',
    rotate: 'post /api/v1/jwt/rotate',
    settings: 'get /api/v1/jwt/settings',
    updateSettings: 'patch /api/v1/jwt/settings',
    teamKeys: 'get /team/{team}/.well-known/jwks.json',
    discovery: 'get /team/{team}/.well-known/openid-configuration',
    keys: 'get /.well-known/jwks.json',
  },
  linkTokens: {
    create: 'post /api/v1/link-token',
    get: 'get /api/v1/link-token/{token}',
    delete: 'delete /api/v1/link-token/{token}',
  },
  accessTokens: {
    create: 'post /api/v1/access-token',
    list: 'get /api/v1/access-token',
    get: 'get /api/v1/access-token/{id}',
    delete: 'delete /api/v1/access-token/{id}',
  },
  auditLog: {
    list: 'get /api/v1/audit-log',
  },
  quota: {
    get: 'get /api/v1/quota',
  },
  webhooks: {
    create: 'post /api/v1/webhook',
    list: 'get /api/v1/webhook',
    get: 'get /api/v1/webhook/{wid}',
    deliveries: 'get /api/v1/webhook/{wid}/deliveries',
    update: 'patch /api/v1/webhook/{wid}',
    rotate: 'post /api/v1/webhook/{wid}/rotate',
    test: 'post /api/v1/webhook/{wid}/test',
    redeliver: 'post /api/v1/webhook/{wid}/delivery/{did}/redeliver',
    delete: 'delete /api/v1/webhook/{wid}',
  },
  meterDestinations: {
    create: 'post /api/v1/meter-destination',
    list: 'get /api/v1/meter-destination',
    get: 'get /api/v1/meter-destination/{mid}',
    update: 'patch /api/v1/meter-destination/{mid}',
    events: 'get /api/v1/meter-destination/{mid}/events',
    redeliver: 'post /api/v1/meter-destination/{mid}/redeliver',
    preview: 'get /api/v1/meter-destination/{mid}/preview',
    proof: 'get /api/v1/meter-destination/{mid}/proof',
    delete: 'delete /api/v1/meter-destination/{mid}',
  },
  paymentSources: {
    create: 'post /api/v1/payment-source',
    list: 'get /api/v1/payment-source',
    get: 'get /api/v1/payment-source/{pid}',
    update: 'patch /api/v1/payment-source/{pid}',
    payments: 'get /api/v1/payment-source/{pid}/payments',
    apply: 'post /api/v1/payment-source/{pid}/payment/{payid}/apply',
    delete: 'delete /api/v1/payment-source/{pid}',
  },
} as const satisfies Record<string, Record<string, keyof Contract>>;

export const VERIFY = 'post /api/v1/api-key/verify' satisfies keyof Contract;
export const VERIFY_BATCH = 'post /api/v1/api-key/verify/batch' satisfies keyof Contract;

/** Operations that verify serves, too: a client that only verifies reaches no other address. Each may be repeated: a hold's id, the Idempotency-Key that is cancelled, or that of each verification is its key. */
export const ofVerify: ReadonlySet<string> = new Set([
  operations.holds.capture,
  operations.holds.release,
  operations.holds.extend,
  operations.verifications.cancel,
  VERIFY_BATCH,
]);

/** The HTTP request of an operation: inputs named in the path's braces go into the path, the rest into the query or the body. */
export function requestOf(operation: string, input: Record<string, unknown> = {}) {
  const [verb = '', path = '', , accept = JSON_TYPE] = operation.split(' ');
  const rest = new Map(Object.entries(input).filter(([, value]) => value !== undefined));
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = rest.get(name);
    rest.delete(name);
    // "." and ".." would change the path.
    if (typeof value !== 'string' || /^\.{0,2}$/.test(value)) throw new TypeError(`${name} is missing or not an id`);
    return encodeURIComponent(value);
  });
  const method = verb.toUpperCase();
  if (rest.size === 0) return { method, path: filled, accept, body: undefined };
  if (method !== 'GET') return { method, path: filled, accept, body: Object.fromEntries(rest) };
  const query = new URLSearchParams(Object.fromEntries([...rest].map(([name, value]) => [name, String(value)])));
  return { method, path: `${filled}?${query.toString()}`, accept, body: undefined };
}
