import { randomUUID } from 'node:crypto';
import type { World } from '../../../../tests/helpers/world.ts';
import { makeCustomers, must, newWorkspace, once, refused } from './calls.ts';

/** What a test does with the billing records of a workspace of its own, by the api's operations; each must succeed. */
export async function makeRecords(world: World, fields: object = {}) {
  const workspaceId = await newWorkspace(world, fields);
  const customers = makeCustomers(world, workspaceId);
  const path = (id: string) => `/api/v1/customer-billing/${id}`;
  const post = async (status: number, at: string, body?: object) =>
    (await must(status, world.call('post', at, body, { headers: once() }))).body;
  const get = async (at: string) => (await must(200, world.call('get', at))).body;
  const grant = (id: string, body: object) => post(201, `${path(id)}/grant`, body);
  const billing = async (id: string) => (await get(path(id))).billing;
  const grants = async (id: string, query = '') => (await get(`${path(id)}/grants?${query}`)).grants as Grant[];

  return {
    workspaceId,
    customers,
    path,
    get,
    grant,
    billing,
    grants,
    /** A record with a key that draws on it. */
    async record(totalCredits = '0') {
      const meter = `meter-${randomUUID()}`;
      const made = await post(201, '/api/v1/customer-billing', { workspaceId, externalMeterId: meter, totalCredits });
      const { key } = await customers.newKey({ externalMeterId: meter });
      return { id: made.billing.id as string, meter, key };
    },
    granted: async (id: string, body: object): Promise<string> => (await grant(id, body)).grant.id,
    voided: (id: string, grantId: string, reason = 'r') => post(200, `${path(id)}/grant/${grantId}/void`, { reason }),
    refill: (externalMeterId: string, refill: unknown) =>
      post(200, '/api/v1/customer-billing/refill', { workspaceId, externalMeterId, refill }),
    adjust: async (id: string, amount: string, more: object = {}) =>
      (await post(201, `${path(id)}/adjustment`, { amount, reason: 'r', ...more })).adjustment,
    /** Draws credits, by verify; gives its answer. */
    spend: async (key: string, usage: string, more: object = {}) =>
      (await must(200, customers.verify({ key, billing: { usage, ...more } }))).body,
    /** Asks for what is refused with an error code. */
    refused: (code: number, at: string, body?: object) =>
      refused(code, world.call('post', at, body, { headers: once() }), JSON.stringify(body)),
    amounts: async (id: string) => amountsOf(await billing(id)),
    /** The state of each grant, what it gave, what of it has expired, and what is left; first credits are the first one. */
    numbers: async (id: string) =>
      (await grants(id)).map(
        ({ state, usedCredits, expiredCredits, remainingCredits }) =>
          `${state} ${usedCredits} ${expiredCredits} ${remainingCredits}`,
      ),
    proof: async (id: string) => (await get(`${path(id)}/reconciliation`)).reconciliation,
  };
}

export type Records = Awaited<ReturnType<typeof makeRecords>>;
type Text = 'id' | 'credits' | 'state' | 'name' | 'scheduleId' | 'usedCredits' | 'expiredCredits' | 'remainingCredits';
export type Grant = Record<Text, string> & Record<'beginsAt' | 'expiresAt' | 'priority', number>;

/** Total, used, available, held and expired. */
export function amountsOf(billing: Record<string, string>): string[] {
  return ['total', 'used', 'available', 'held', 'expired'].map((name) => billing[`${name}Credits`]!);
}
