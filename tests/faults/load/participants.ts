import { randomUUID } from 'node:crypto';
import { formatCredits, parseCredits } from '../../../shared/values/credits.ts';
import type { WindowLimit } from '../history.ts';
import type { Body } from './client.ts';
import type { Manager } from './manager.ts';

export type Meter = { billing: string; name: string; hasGrants?: boolean };
export type Key = {
  id: string;
  secrets: string[];
  meter?: Meter;
  ratePerSecond?: number;
  limits?: WindowLimit[];
  expiresAtMs?: number;
  /** The only address that may use it, from which its calls come. */
  ip?: string;
};

/** The keys and records of one phase. Each phase has its own, so that an error in one is not blamed on another. */
export type Participants = {
  workspaceId: string;
  meters: Meter[];
  /** Have more credits than all calls need. */
  roomy: Key[];
  /** Two keys that share a record, which is used up and refilled again and again. */
  tight: Key[];
  /** Its record allows overage up to a spend cap. */
  capped: Key;
  /** Its calls have an Idempotency-Key and are repeated until they are decided. */
  repeated: Key;
  limited: Key;
  /** Has limits over windows, which its calls reach. */
  windowed?: Key;
  /** Only holds are made with it, which end in every way. */
  holding?: Key;
  /** Its record has few credits but those of grants that end within seconds; some of its calls hold. */
  granted?: Key;
  unmetered: Key;
  /** Has a list of addresses. */
  listed: Key;
  /** Expires during the phase; `lasting` does not. */
  expiring: Key;
  lasting: Key;
};

type Terms = { totalCredits?: string; allowOverages?: boolean; spendCap?: string };

const ROOM = '1000000';
const HOUR_MS = 3_600_000;
const LIMITS: WindowLimit[] = [
  { name: 'second', unit: 'requests', most: 15, per: 'second' },
  { name: 'minute', unit: 'credits', most: 30_000_000, per: 'minute' },
  { name: 'day', unit: 'credits', most: 45_000_000, per: 'day' },
];

/** Makes them; `plain` ones without what a version of before does not know. */
export async function makeParticipants(manager: Manager, expiresInMs: number, plain = false): Promise<Participants> {
  const { phase } = manager;
  const name = `phase ${phase}`;
  const made = await manager.insist({
    what: 'workspace.rename',
    method: 'post',
    path: '/workspace',
    body: { name },
    detail: { name },
    learn: (body) => ({ of: body.workspace!.id }),
  });
  if (!made) throw new Error(`no workspace could be made for phase ${phase}`);
  const workspaceId = made.workspace!.id;
  const meters: Meter[] = [];

  async function meter(name: string, terms: Terms, hasGrants = false): Promise<Meter> {
    const body = { workspaceId, externalMeterId: name, ...terms };
    const answer = await manager.insist({
      what: 'billing.create',
      method: 'post',
      path: '/customer-billing',
      body,
      learn: (given) => ({ of: given.billing!.id }),
      detail: { totalMicros: parseCredits(terms.totalCredits ?? '0') ?? 0 },
    });
    if (!answer) throw new Error(`no billing record could be made for phase ${phase}`);
    const one = { billing: answer.billing!.id, name, ...(hasGrants && { hasGrants }) };
    meters.push(one);
    return one;
  }
  const key = async (name: string, of?: Meter, terms: Partial<Key> = {}) => {
    const one = await makeKey(manager, workspaceId, name, of, terms);
    if (!one) throw new Error(`no key could be made for phase ${phase}`);
    return one;
  };

  const roomy = await Promise.all([0, 1].map((i) => meter(`roomy-${i}`, { totalCredits: ROOM })));
  const tight = await meter('tight', { totalCredits: '20' });
  const capped = await meter('capped', { allowOverages: true, spendCap: '60' });
  const repeated = await meter('repeated', { totalCredits: ROOM });
  const limited = await meter('limited', { totalCredits: ROOM });
  const newer = async () => ({
    windowed: await key('windowed', await meter('windowed', { totalCredits: ROOM }), { limits: LIMITS }),
    holding: await key('holding', await meter('holding', { totalCredits: ROOM })),
    granted: await key('granted', await meter('granted', { totalCredits: '5' }, true)),
  });
  return {
    workspaceId,
    meters,
    roomy: await Promise.all(roomy.map((one, i) => key(`roomy-${i}`, one))),
    tight: [await key('tight-0', tight), await key('tight-1', tight)],
    capped: await key('capped', capped),
    repeated: await key('repeated', repeated, { secrets: [foreignText()] }),
    limited: await key('limited', limited, { ratePerSecond: 20 }),
    ...(!plain && (await newer())),
    unmetered: await key('unmetered', undefined, { secrets: [foreignText()] }),
    listed: await key('listed', undefined, { ip: '192.0.2.7' }),
    expiring: await key('expiring', undefined, { expiresAtMs: Date.now() + expiresInMs }),
    lasting: await key('lasting', undefined, { expiresAtMs: Date.now() + HOUR_MS }),
  };
}

/** The secret of a key that was made elsewhere. */
export function foreignText(): string {
  return `sk-${randomUUID()}`;
}

/** Makes a key, or imports it with a secret of its own; undefined if the change was never decided. */
export async function makeKey(
  manager: Manager,
  workspaceId: string,
  name: string,
  meter?: Meter,
  terms: Partial<Key> = {},
): Promise<Key | undefined> {
  const { ratePerSecond, limits, expiresAtMs, ip, secrets: [secret] = [] } = terms;
  const fields = {
    name,
    workspaceId,
    ...(meter && { externalMeterId: meter.name }),
    ...(ratePerSecond && { rateLimitPerSecond: ratePerSecond }),
    ...(limits && { limits: limits.map(limitBody) }),
    ...(expiresAtMs && { expiresAt: expiresAtMs }),
    ...(ip && { allowedIPs: [ip] }),
  };
  const madeIn = ({ apiKey, results }: Body) => apiKey ?? results![0]!.apiKey!;
  const answer = await manager.insist({
    what: 'key.create',
    method: 'post',
    ...(secret === undefined
      ? { path: '/api-key', body: fields }
      : { path: '/api-key/import', body: { keys: [{ ...fields, key: secret }] } }),
    detail: {
      name,
      ...(ratePerSecond && { ratePerSecond }),
      ...(limits && { limits }),
      ...(expiresAtMs && { expiresAtMs }),
    },
    learn: (body) => ({ of: madeIn(body).id }),
  });
  if (!answer) return undefined;
  const { id, key } = madeIn(answer);
  return {
    id,
    secrets: [secret ?? key],
    ...(meter && { meter }),
    ...(ratePerSecond && { ratePerSecond }),
    ...(expiresAtMs && { expiresAtMs }),
    ...(ip && { ip }),
  };
}

function limitBody({ name, unit, most, per }: WindowLimit) {
  return { name, unit, limit: unit === 'requests' ? most : formatCredits(most), per };
}
