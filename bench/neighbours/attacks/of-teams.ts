import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import type { Attack, Attacking, Target } from './attack.ts';
import { flood, send, type HttpCall } from './flood.ts';

const ADDRESSES = 1_000;
const SCOPES = 100;
const LISTED_KEYS = 200;
const WRITERS = 40;
const READERS = 20;
const VERIFIERS = 200;

/** Attacks of an ordinary team, with a token that has all permissions. */
export const ofTeams = {
  'workspaces with long allow lists': team(
    async (own) => (signal) =>
      flood(signal, WRITERS, () =>
        own.call('post', '/api/v1/workspace', { name: 'full', defaultAllowedIPs: addresses() }),
      ),
  ),
  'keys with long allow lists': team(async (own) => {
    const workspaceId = await own.workspace();
    return (signal) =>
      flood(signal, WRITERS, () =>
        own.call('post', '/api/v1/api-key', { workspaceId, name: 'full', allowedIPs: addresses() }),
      );
  }),
  'a key of 1,000 addresses': team(async (own) => {
    const workspaceId = await own.workspace();
    const key = await own.key({ workspaceId, allowedIPs: addresses() });
    return (signal) =>
      flood(signal, VERIFIERS, (n) => own.verify({ key, ip: addressOf(n % (2 * ADDRESSES)), requestedScopes: [] }));
  }),
  '100 scopes in a new order': team(async (own) => {
    const workspaceId = await own.workspace();
    const scopes = await own.scopes(workspaceId);
    const key = await own.key({ workspaceId, scopes });
    return (signal) => flood(signal, VERIFIERS, () => own.verify({ key, requestedScopes: shuffled(scopes) }));
  }),
  'a new question with each call': team(async (own) => {
    const key = await own.key({ workspaceId: await own.workspace() });
    return (signal) =>
      flood(signal, VERIFIERS, (n) =>
        own.verify({
          key,
          route: `GET /${n}${'x'.repeat(1_000)}`,
          requestedScopes: Array.from({ length: 50 }, (_, i) => ({ representation: `${'s'.repeat(100)}${n}-${i}` })),
        }),
      );
  }),
  'as many verifications as go': team(async (own) => {
    const key = await own.key({ workspaceId: await own.workspace() });
    return (signal) => flood(signal, 1_000, () => own.verify({ key }));
  }),
  'idempotency keys without end': team(async (own) => {
    const workspaceId = await own.workspace();
    const key = await own.key({ workspaceId });
    return (signal) =>
      flood(signal, VERIFIERS, (n) => {
        const call = own.verify({ key, billing: { usageName: `${'n'.repeat(100)}${n}` } });
        return { ...call, headers: { ...call.headers, 'Idempotency-Key': `${n}-${'k'.repeat(200)}` } };
      });
  }),
  'bodies of unique items': team(async (own) => {
    const workspaceId = await own.workspace();
    const permissions = Array.from({ length: 3_000 }, (_, i) => `nothing:${i}`);
    return (signal) =>
      flood(signal, WRITERS, () =>
        own.call('post', '/api/v1/access-token', { name: 'many', permissions, workspaceIds: [workspaceId] }),
      );
  }),
  'long lists at once': team(async (own) => {
    const workspaceId = await own.workspace();
    const metadata = { text: 'm'.repeat(4_000) };
    await inTurn(LISTED_KEYS, () => own.key({ workspaceId, metadata }));
    return (signal) =>
      flood(signal, READERS, () => own.call('get', `/api/v1/workspace/${workspaceId}/api-keys?limit=100`));
  }),
  '40 writers': team(async (own) => {
    const workspaceId = await own.workspace();
    return (signal) => flood(signal, WRITERS, () => own.call('post', '/api/v1/api-key', { workspaceId, name: 'k' }));
  }),
  'keys rotated without end': team(async (own) => {
    const workspaceId = await own.workspace();
    const ids = await inTurn(WRITERS, () => own.keyId({ workspaceId }));
    return (signal) =>
      flood(signal, WRITERS, (n) =>
        own.call('post', `/api/v1/workspace/${workspaceId}/api-key/${ids[n % WRITERS]}/rotate`, { graceSeconds: 3600 }),
      );
  }),
  'JWTs signed without end': team(
    async (own) => (signal) =>
      flood(signal, WRITERS, () => own.call('post', '/api/v1/jwt', { payload: { text: 'p'.repeat(2_000) } })),
  ),
  'usage over ten years': team(async (own) => {
    const billingId = await own.billing(await own.workspace());
    return (signal) =>
      flood(signal, READERS, () => own.call('get', `/api/v1/usage/${billingId}?from=2016-01-01&to=2026-12-31`));
  }),
  'refused calls without end': team(
    async (own) => (signal) => flood(signal, WRITERS, () => own.call('get', '/api/v1/workspace/ws_of_others/api-keys')),
  ),
} as const satisfies Record<string, Attack>;

type Own = ReturnType<typeof ownTeam>;

function team(prepare: (own: Own) => Promise<Attacking>): Attack {
  return { by: 'team', prepare: (target) => prepare(ownTeam(target)) };
}

function ownTeam({ apiUrl, verifyUrl, token }: Target) {
  const headers = { Authorization: `Bearer ${token}` };
  const call = (method: string, path: string, body?: object): HttpCall => ({
    url: apiUrl + path,
    method: method.toUpperCase(),
    headers,
    ...(body && { body }),
  });
  const make = async (path: string, body: object) => {
    const { status, text } = await send(call('post', path, body));
    if (status !== 201) throw new Error(`${path}: ${status} ${text.slice(0, 500)}`);
    return JSON.parse(text);
  };
  const newKey = async (fields: object) => (await make('/api/v1/api-key', { name: 'k', ...fields })).apiKey;
  return {
    call,
    verify: (body: object): HttpCall => ({ url: verifyUrl + VERIFY_PATH, method: 'POST', headers, body }),
    workspace: async (): Promise<string> => (await make('/api/v1/workspace', { name: 'hostile' })).workspace.id,
    key: async (fields: object): Promise<string> => (await newKey(fields)).key,
    keyId: async (fields: object): Promise<string> => (await newKey(fields)).id,
    async billing(workspaceId: string): Promise<string> {
      const body = { workspaceId, externalMeterId: 'hostile', totalCredits: '1000' };
      return (await make('/api/v1/customer-billing', body)).billing.id;
    },
    async scopes(workspaceId: string) {
      const scopes = Array.from({ length: SCOPES }, (_, i) => ({
        representation: `${'s'.repeat(120)}${i}`,
        read: true,
      }));
      const path = `/api/v1/workspace/${workspaceId}/scope`;
      for (const { representation } of scopes) await make(path, { name: 's', representation });
      return scopes;
    },
  };
}

function addresses(): string[] {
  return Array.from({ length: ADDRESSES }, (_, i) => addressOf(2 * i));
}

function addressOf(n: number): string {
  return `2001:db8:${n.toString(16)}::1`;
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

async function inTurn<T>(count: number, work: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let i = 0; i < count; i++) results.push(await work());
  return results;
}
