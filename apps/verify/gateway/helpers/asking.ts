import * as assert from 'uvu/assert';
import { envelopeProblem } from '../../../../tests/helpers/contract.ts';
import { makeEndClients } from '../../../../tests/helpers/end-clients.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';

type Ask = { to?: string; method?: string; token?: string | null; headers?: Record<string, string> };
type Answered = {
  status: number;
  headers: Headers;
  text: string;
  error: { code: number; message: string; reason?: string; limit?: string } | undefined;
};

export const POLICY = 'usage=1,name=reads,scope=documents.read';
export const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });

/** Joins a world with the keys of end clients, and asks verify as gateways do. */
export async function openAsking() {
  const world = await joinWorld();
  const clients = await makeEndClients(world);
  const { books } = world;

  async function ask(path: string, options: Ask = {}): Promise<Answered> {
    const { to = world.verify.url, method = 'GET', token = clients.token, headers = {} } = options;
    const sent = { ...(token !== null && { 'X-Keytally-Token': token }), ...headers };
    const response = await fetch(`${to}/gateway/${path}`, { method, headers: sent });
    const text = await response.text();
    const { status } = response;
    // nginx gets 403 where the envelope says 402 or 429.
    if (status >= 400 && method !== 'HEAD' && !path.startsWith('nginx'))
      assert.is(envelopeProblem({ status, headers: response.headers, text }), undefined, text);
    const { error } = (text ? JSON.parse(text) : {}) as Pick<Answered, 'error'>;
    return { status, headers: response.headers, text, error };
  }

  return {
    world,
    clients,
    ask,
    /** Asks with the good key. */
    pass: (path: string, options: Ask = {}) =>
      ask(path, { ...options, headers: { ...bearer(clients.good.key), ...options.headers } }),
    /** What is answered to a mistake of the gateway: it says nothing of the gateway. */
    async mistake(sent: Promise<Answered>): Promise<void> {
      const { status, error, text } = await sent;
      assert.equal([status, error?.code], [500, 50002], text);
      assert.not.match(text, /gateway|token|policy|dialect/i);
    },
    /** A metered key that may do what the good one may, with events of its own. */
    async newKey(): Promise<{ id: string; key: string; usedCredits(): Promise<string> }> {
      const meter = await clients.customers.newMeter({ totalCredits: '1000' });
      const scopes = [{ representation: 'documents', read: true }];
      const made = await clients.customers.newKey({ externalMeterId: meter, scopes });
      return { ...made, usedCredits: async () => (await clients.customers.billing(meter)).usedCredits };
    },
    /** The events of a metered key as the books have them: usage name, route and cost in micro-credits, in their order. */
    async eventsOf(id: string): Promise<[name: string, route: string, costMicros: number][]> {
      await world.booked();
      const query =
        'select usage_name, route, cost_micros from usage_events final where key_id = {id:String} order by seq';
      const answer = await books.client.query({ query, query_params: { id }, format: 'JSONCompactEachRow' });
      const rows = await answer.json<[string, string, string]>();
      return rows.map(([name, route, costMicros]) => [name, route, Number(costMicros)]);
    },
  };
}
