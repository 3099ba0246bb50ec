import { must, newWorkspace } from '../../../tests/helpers/customers.ts';
import { eventually, spawnWorld } from '../../../tests/helpers/world.ts';
import { makeReceiverCertificate, startReceiver } from './receiver.ts';

export type WebhooksWorld = Awaited<ReturnType<typeof makeWebhooksWorld>>;

type Delivery = { id: string; eventId: string; state: 'WAITING' | 'DELIVERED' | 'FAILED'; tries: object[] };

/** An api and the program that delivers, which may call a receiver of the test on this machine. */
export async function makeWebhooksWorld(answer: Parameters<typeof startReceiver>[1], retries?: string) {
  const certificate = makeReceiverCertificate();
  const receiver = await startReceiver(certificate, answer);
  const world = await spawnWorld([], {
    WEBHOOK_ALLOWED_TARGETS: `*=${receiver.target}`,
    NODE_EXTRA_CA_CERTS: certificate.certificate,
    ...(retries && { WEBHOOK_RETRY_SECONDS: retries }),
  });
  const workspaceId = await newWorkspace(world);
  await world.start('webhooks');
  const path = (id: string) => `/api/v1/webhook/${id}`;
  return {
    world,
    workspaceId,
    receiver,
    async newWebhook(events: string[], more: object = {}): Promise<{ id: string; secret: string }> {
      const body = { url: receiver.url, events, ...more };
      return (await must(201, world.call('post', '/api/v1/webhook', body))).body.webhook;
    },
    newKey: async (name: string): Promise<string> =>
      (await must(201, world.call('post', '/api/v1/api-key', { name, workspaceId }))).body.apiKey.id,
    read: async (id: string) => (await must(200, world.call('get', path(id)))).body.webhook as Record<string, unknown>,
    sendTest: (id: string) => must(201, world.call('post', `${path(id)}/test`)),
    /** Waits until the newest delivery of a webhook is in a state with so many tries. */
    async ended(id: string, state: Delivery['state'], tries: number): Promise<Delivery> {
      return eventually(`a delivery is ${state} after ${tries} tries`, async () => {
        const { body } = await must(200, world.call('get', `${path(id)}/deliveries?limit=1`));
        const [newest] = body.deliveries as Delivery[];
        return newest?.state === state && newest.tries.length === tries ? newest : undefined;
      });
    },
  };
}
