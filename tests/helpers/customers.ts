import * as assert from 'uvu/assert';
import { eventually } from './eventually.ts';
import { decided, once, request, type Answer, type Call, type RequestOptions } from './request.ts';
import { formatCredits, parseSignedCredits } from '../../shared/values/credits.ts';
import { VERIFY_PATH } from '../../shared/verification/operation.ts';

type VerifyOptions = { url?: string; token?: string | null; headers?: Record<string, string> };
export type TestKey = { id: string; key: string; meter: string };

// When Redis has not answered for so long, the api tells the amounts that Postgres has a copy of, which may be older.
const COPY_AFTER_MS = 2_000;

/** Makes a workspace by the api, with the world's token if no other is given; gives its id. */
export async function newWorkspace(world: { call: Call }, fields: object = {}, options: RequestOptions = {}) {
  const asked = world.call('post', '/api/v1/workspace', { name: 'w', ...fields }, options);
  return (await must(201, asked)).body.workspace.id as string;
}

/** What of a world is needed to make customers. */
type Caller = { call: Call; verify: { url: string } | undefined; team: { token: string } };

/** Makes keys and billing records in a workspace by the api's operations, and verifies keys. */
export type Customers = ReturnType<typeof makeCustomers>;

export function makeCustomers(world: Caller, workspaceId: string) {
  async function newMeter(fields: object): Promise<string> {
    const body = { workspaceId, externalMeterId: `meter-${Math.random()}`, ...fields };
    await must(201, world.call('post', '/api/v1/customer-billing', body, { headers: once() }));
    return body.externalMeterId;
  }

  async function newKey(fields: object = {}): Promise<{ id: string; key: string }> {
    const body = { name: 'k', workspaceId, ...fields };
    return (await must(201, world.call('post', '/api/v1/api-key', body, { headers: once() }))).body.apiKey;
  }

  async function billing(externalMeterId: string): Promise<{ id: string; usedCredits: string; heldCredits: string }> {
    const query = new URLSearchParams({ workspaceId, externalMeterId });
    return eventually('its amounts are those of Redis', async () => {
      const asked = performance.now();
      const { body } = await must(200, world.call('get', `/api/v1/customer-billing?${query.toString()}`));
      return performance.now() - asked < COPY_AFTER_MS ? body.billing : undefined;
    });
  }

  /** Verifies on the verify app, or at another base URL. */
  function verify(body: object, options: VerifyOptions = {}): Promise<Answer> {
    const { url = world.verify!.url, token = world.team.token, headers = {} } = options;
    return request(url + VERIFY_PATH, 'post', { token, body, headers });
  }

  return {
    newMeter,
    newKey,
    billing,
    verify,
    /** Holds credits, once verify knows what ids of holds are signed with and the shard is open; gives the id. */
    async hold({ key }: { key: string }, usage: string, hold: object = { expiresIn: 600 }): Promise<string> {
      const headers = once();
      const asked = async () => (await verify({ key, billing: { usage, hold } }, { headers })).body.hold?.id as string;
      return eventually('it is held', asked);
    },
    /** Spends credits by a call that is VALID; gives its body. */
    async spend({ key }: Pick<TestKey, 'key'>, usage: string, more: object = {}) {
      const { body, text } = await must(200, verify({ key, billing: { usage }, ...more }, { headers: once() }));
      assert.is(body.status, 'VALID', text);
      return body;
    },
    /** A key with a billing record of its own. */
    async meteredKey(totalCredits: string): Promise<TestKey> {
      const meter = await newMeter({ totalCredits });
      return { ...(await newKey({ externalMeterId: meter })), meter };
    },
    /** The usage of a meter; undefined while there is none. */
    async usage(meter: string): Promise<string | undefined> {
      const { data } = (await must(200, world.call('get', `/api/v1/usage/${(await billing(meter)).id}`))).body;
      return data.length === 0 ? undefined : totalOf(data);
    },
  };
}

/** The sum of rows of usage, however many days they fall on. */
export function totalOf(rows: { totalBillingUsage: string }[]): string {
  return formatCredits(rows.reduce((sum, row) => sum + parseSignedCredits(row.totalBillingUsage)!, 0));
}

/** Gives the answer, and fails if it is decided with another status. */
export async function must(status: number, answer: Promise<Answer>): Promise<Answer> {
  const received = await decided(answer, status);
  assert.is(received.status, status, received.text);
  return received;
}
