import * as assert from 'uvu/assert';
import { request, type Answer, type World } from './world.ts';
import { VERIFY_PATH } from '../../shared/verification/operation.ts';

type VerifyOptions = { url?: string; token?: string | null; headers?: Record<string, string> };
export type TestKey = { id: string; key: string; meter: string };

/** Makes keys and billing records in a workspace by the api's operations, and verifies keys. */
export type Customers = ReturnType<typeof makeCustomers>;

export function makeCustomers(world: World, workspaceId: string) {
  async function newMeter(fields: object): Promise<string> {
    const body = { workspaceId, externalMeterId: `meter-${Math.random()}`, ...fields };
    await must(201, world.call('post', '/api/v1/customer-billing', body));
    return body.externalMeterId;
  }

  async function newKey(fields: object = {}): Promise<{ id: string; key: string }> {
    const body = { name: 'k', workspaceId, ...fields };
    return (await must(201, world.call('post', '/api/v1/api-key', body))).body.apiKey;
  }

  async function billing(externalMeterId: string): Promise<{ id: string; usedCredits: string; heldCredits: string }> {
    const query = new URLSearchParams({ workspaceId, externalMeterId });
    return (await must(200, world.call('get', `/api/v1/customer-billing?${query.toString()}`))).body.billing;
  }

  return {
    newMeter,
    newKey,
    billing,
    /** A key with a billing record of its own. */
    async meteredKey(totalCredits: string): Promise<TestKey> {
      const meter = await newMeter({ totalCredits });
      return { ...(await newKey({ externalMeterId: meter })), meter };
    },
    /** The usage of a meter's first day and usage name; undefined while there is none. */
    async usage(meter: string): Promise<string | undefined> {
      const { data } = (await must(200, world.call('get', `/api/v1/usage/${(await billing(meter)).id}`))).body;
      return data[0]?.totalBillingUsage;
    },
    /** Verifies on the verify app, or at another base URL. */
    verify(body: object, options: VerifyOptions = {}): Promise<Answer> {
      const { url = world.verify!.url, token = world.team.token, headers = {} } = options;
      return request(url + VERIFY_PATH, 'post', { token, body, headers });
    },
  };
}

/** Gives the answer, and fails if it has another status. */
export async function must(status: number, answer: Promise<Answer>): Promise<Answer> {
  const received = await answer;
  assert.is(received.status, status, received.text);
  return received;
}
