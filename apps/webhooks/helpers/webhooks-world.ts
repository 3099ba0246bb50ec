import * as assert from 'uvu/assert';
import { must, newWorkspace } from '../../../tests/helpers/customers.ts';
import { eventually, spawnWorld, type Spawned, type ProcessWorld } from '../../../tests/helpers/world.ts';
import { makeReceiverCertificate, startReceiver, type Certificate, type Receiver } from './receiver.ts';

export type WebhooksWorld = Awaited<ReturnType<typeof makeWebhooksWorld>>;

type Answer = Parameters<typeof startReceiver>[1];
export type TestWebhook = { id: string; secret: string };
export type TestDelivery = {
  id: string;
  eventId: string;
  type: string;
  state: 'WAITING' | 'DELIVERED' | 'FAILED';
  nextTryAt?: string;
  tries: { at: string; durationMs: number; status?: number; error?: string; answer?: string }[];
};

/** An api and the program that delivers, which may call receivers of the test on this machine. */
export async function makeWebhooksWorld({ receivers, answers = [], retries }: WorldOptions) {
  const certificate = makeReceiverCertificate();
  const started = await startAll(certificate, receivers, answers);
  const settings: Record<string, string> = {
    WEBHOOK_ALLOWED_TARGETS: started.map(({ target }) => `*=${target}`).join(','),
    NODE_EXTRA_CA_CERTS: certificate.certificate,
    ...(retries && { WEBHOOK_RETRY_SECONDS: retries }),
  };
  const world = await spawnWorld([], settings);
  const workspaceId = await newWorkspace(world);
  const delivering: Spawned = await world.start('webhooks');
  return {
    world,
    workspaceId,
    delivering,
    receivers: started,
    startDelivering: () => world.start('webhooks'),
    ...tools(world, workspaceId),
  };
}

type WorldOptions = { receivers: number; answers?: Answer[]; retries?: string };

function startAll(certificate: Certificate, count: number, answers: Answer[]): Promise<Receiver[]> {
  return Promise.all(Array.from({ length: count }, (_, i) => startReceiver(certificate, answers[i])));
}

function tools(world: ProcessWorld, workspaceId: string) {
  const path = (id: string) => `/api/v1/webhook/${id}`;
  return {
    async newWebhook(url: string, events: string[], more: object = {}): Promise<TestWebhook> {
      const body = { url, events, ...more };
      return (await must(201, world.call('post', '/api/v1/webhook', body))).body.webhook as TestWebhook;
    },
    newKey: async (name = 'k'): Promise<string> =>
      (await must(201, world.call('post', '/api/v1/api-key', { name, workspaceId }))).body.apiKey.id as string,
    read: async (id: string) => (await must(200, world.call('get', path(id)))).body.webhook as Record<string, unknown>,
    deliveries: async (id: string): Promise<TestDelivery[]> =>
      (await must(200, world.call('get', `${path(id)}/deliveries`))).body.deliveries as TestDelivery[],
    async sendTest(id: string): Promise<TestDelivery> {
      return (await must(201, world.call('post', `${path(id)}/test`))).body.delivery as TestDelivery;
    },
    /** Waits until the newest delivery of a webhook is in a state with so many tries. */
    async ended(id: string, state: TestDelivery['state'], tries: number): Promise<TestDelivery> {
      return eventually(`a delivery is ${state} after ${tries} tries`, async () => {
        const [newest] = (await must(200, world.call('get', `${path(id)}/deliveries?limit=1`))).body
          .deliveries as TestDelivery[];
        return newest?.state === state && newest.tries.length === tries ? newest : undefined;
      });
    },
    /** Makes what waits due now. */
    async dueNow(id: string): Promise<void> {
      const { count } = await world.sql`
        update webhook_deliveries set next_at = now() where webhook_id = ${id} and state = 'WAITING' and claimed_until is null`;
      assert.ok(count > 0, 'something waits');
    },
  };
}
