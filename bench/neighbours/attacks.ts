import { VERIFY_PATH } from '../../shared/verification/operation.ts';
import { send, type HttpCall } from './send.ts';

/** What an attacker knows: the addresses, and an access token of its own team with all permissions. */
export type Target = { apiUrl: string; verifyUrl: string; token: string };
/** An attack: how many calls it makes at once, what it needs before, and its calls by their number. */
export type Attack = { atOnce: number; prepare(target: Target): Promise<(n: number) => HttpCall> };

const ADDRESSES = 1_000;
const MANY = 40;
const VERIFIERS = 200;

/** Every attack, by its name in the table. Strangers know no token; end clients of a gateway come with the gateway's. */
export const attacks: Record<string, Attack> = {
  'a stranger: blanks in a header, through a gateway': stranger(({ verifyUrl, token }) => ({
    url: `${verifyUrl}/gateway/nginx/`,
    headers: { 'X-Keytally-Token': token, Authorization: `Basic a${' '.repeat(15_000)}b` },
  })),
  'a stranger: gateway policies without a token': stranger(({ verifyUrl }, n) => ({
    url: `${verifyUrl}/gateway/nginx/usage=0.${String(n).padStart(6, '0').slice(-6)},scope=${'s'.repeat(100)}${n}.read/`,
    headers: { 'X-Keytally-Token': 'nobody' },
  })),
  'a stranger: unknown access tokens': stranger((target, n) => ({
    ...verifyOf(target, { key: 'x' }),
    headers: { Authorization: `Bearer kt_${String(n).padStart(40, '0')}` },
  })),
  'a stranger: large bodies without a token': stranger((target) => verifyOf(target, `[${'[{"a":'.repeat(2_500)}`)),
  'a stranger: long paths': stranger(({ verifyUrl }, n) => ({ url: `${verifyUrl}/${'%2e%2e/'.repeat(2_000)}${n}` })),
  'a stranger: requests that never end': {
    ...stranger((target) => ({ ...verifyOf(target), neverEnds: true })),
    atOnce: 1_000,
  },
  // The largest file that is served: 1.5 MB where it is not taken compressed.
  'a stranger: documents of verify': stranger(({ verifyUrl }) => ({ url: `${verifyUrl}/docs/swagger-ui-bundle.js` })),

  'a team: a key of 1,000 addresses': team(VERIFIERS, async (own) => {
    const allowedIPs = Array.from({ length: ADDRESSES }, (_, i) => addressOf(2 * i));
    const key = await own.key({ workspaceId: await own.workspace(), allowedIPs });
    return (n) => own.verify({ key, ip: addressOf(n % (2 * ADDRESSES)) });
  }),
  'a team: 100 scopes in a new order': team(VERIFIERS, async (own) => {
    const workspaceId = await own.workspace();
    const scopes = await own.scopes(workspaceId, 100);
    const key = await own.key({ workspaceId, scopes });
    return (n) => {
      const at = n % scopes.length;
      return own.verify({ key, requestedScopes: [...scopes.slice(at), ...scopes.slice(0, at).toReversed()] });
    };
  }),
  'a team: a new question with each call': team(VERIFIERS, async (own) => {
    const key = await own.key({ workspaceId: await own.workspace() });
    const scopes = (n: number) =>
      Array.from({ length: 50 }, (_, i) => ({ representation: `${'s'.repeat(100)}${n}-${i}` }));
    return (n) => own.verify({ key, route: `GET /${n}${'x'.repeat(1_000)}`, requestedScopes: scopes(n) });
  }),
  'a team: as many verifications as go': team(1_000, async (own) => {
    const key = await own.key({ workspaceId: await own.workspace() });
    return () => own.verify({ key });
  }),
  'a team: idempotency keys without end': team(VERIFIERS, async (own) => {
    const key = await own.key({ workspaceId: await own.workspace() });
    return (n) => {
      const call = own.verify({ key, billing: { usageName: `${'n'.repeat(100)}${n}` } });
      return { ...call, headers: { ...call.headers, 'Idempotency-Key': `${n}-${'k'.repeat(200)}` } };
    };
  }),
  'a team: long lists at once': team(MANY, async (own) => {
    const workspaceId = await own.workspace();
    for (let i = 0; i < 200; i++) await own.key({ workspaceId, metadata: { text: 'm'.repeat(4_000) } });
    return () => own.call('get', `/api/v1/workspace/${workspaceId}/api-keys?limit=100`);
  }),
  'a team: keys rotated without end': team(MANY, async (own) => {
    const workspaceId = await own.workspace();
    const ids: string[] = [];
    for (let i = 0; i < MANY; i++) ids.push((await own.newKey({ workspaceId })).id);
    const path = (n: number) => `/api/v1/workspace/${workspaceId}/api-key/${ids[n % MANY]}/rotate`;
    return (n) => own.call('post', path(n), { graceSeconds: 3600 });
  }),
  'a team: JWTs signed without end': team(MANY, async (own) => {
    const body = { payload: { text: 'p'.repeat(2_000) } };
    return () => own.call('post', '/api/v1/jwt', body);
  }),
  'a team: usage over ten years': team(MANY, async (own) => {
    const body = { workspaceId: await own.workspace(), externalMeterId: 'hostile', totalCredits: '1000' };
    const { id } = (await own.make('/api/v1/customer-billing', body)).billing;
    return () => own.call('get', `/api/v1/usage/${id}?from=2016-01-01&to=2026-12-31`);
  }),
};

function stranger(callOf: (target: Target, n: number) => HttpCall): Attack {
  return { atOnce: 50, prepare: async (target) => (n) => callOf(target, n) };
}

function team(atOnce: number, prepare: (own: ReturnType<typeof ownTeam>) => Promise<(n: number) => HttpCall>): Attack {
  return { atOnce, prepare: (target) => prepare(ownTeam(target)) };
}

function verifyOf({ verifyUrl }: Target, body?: unknown): HttpCall {
  return { url: verifyUrl + VERIFY_PATH, method: 'POST', body };
}

function ownTeam(target: Target) {
  const headers = { Authorization: `Bearer ${target.token}` };
  const call = (method: string, path: string, body?: object): HttpCall => {
    return { url: target.apiUrl + path, method: method.toUpperCase(), headers, body };
  };
  const make = async (path: string, body: object) => {
    const { status, text } = await send(call('post', path, body));
    if (status !== 201) throw new Error(`${path}: ${status} ${text.slice(0, 500)}`);
    return JSON.parse(text);
  };
  const newKey = async (fields: object) => (await make('/api/v1/api-key', { name: 'k', ...fields })).apiKey;
  return {
    call,
    make,
    newKey,
    verify: (body: object): HttpCall => ({ ...verifyOf(target, body), headers }),
    workspace: async (): Promise<string> => (await make('/api/v1/workspace', { name: 'hostile' })).workspace.id,
    key: async (fields: object): Promise<string> => (await newKey(fields)).key,
    async scopes(workspaceId: string, count: number) {
      const names = Array.from({ length: count }, (_, i) => `${'s'.repeat(120)}${i}`);
      const path = `/api/v1/workspace/${workspaceId}/scope`;
      for (const representation of names) await make(path, { name: 's', representation });
      return names.map((representation) => ({ representation, read: true }));
    },
  };
}

function addressOf(n: number): string {
  return `2001:db8:${n.toString(16)}::1`;
}
