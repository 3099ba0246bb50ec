import { Webhook } from 'standardwebhooks';
import type { Outcome } from '../../../apps/webhooks/call.ts';
import { startDelivering } from '../../../apps/webhooks/deliver.ts';
import { startSendingMeters } from '../../../apps/webhooks/send-meters.ts';
import { RETRIES_MS } from '../../../apps/webhooks/claim.ts';
import { METERS_CHANNEL } from '../../../shared/stores/meters.ts';
import { readConfig } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { withTimeout } from '../../../shared/runtime/timeout.ts';
import { webhookSealer } from '../../../shared/values/webhook-secret.ts';
import { logOf, metrics, type Json, type Servers } from '../programs.ts';
import type { Process, Simulation } from '../simulation.ts';
import type { Parts } from '../work.ts';
import type { makeBilled } from './billed.ts';

export type Hook = { id: string; secret: string };
export type Receiver = ReturnType<typeof makeReceiver>;

const TYPES = ['key.created', 'key.rotated', 'key.deleted', 'grant.began'] as const;
const WITHIN_MS = 10_000;

/** Makes the webhook that each seed begins with. */
export async function beginWebhook(ask: Parts['ask']): Promise<Hook> {
  const body = { url: 'https://hooks.example.com/', events: [...TYPES] };
  const { id, secret } = (await ask({ operationId: 'createWebhook', body }))!.body.webhook;
  return { id, secret };
}

/** Whom the webhook calls: it refuses some calls, until faults end, and keeps what it has accepted. */
export function makeReceiver({ simulation, model, asked, breaks }: Parts, { secret }: Hook) {
  const { random } = simulation;
  const signer = new Webhook(secret);
  const came = new Map<string, string>();
  const accepted = new Map<string, string>();
  let refuses = 0.3;

  function receive({ headers, body }: { headers: Record<string, string>; body: string }): number {
    const id = headers['webhook-id']!;
    const at = new Date(Number(headers['webhook-timestamp']) * 1000);
    if (headers['webhook-signature'] !== signer.sign(id, at, body)) breaks(`${id} is signed wrongly`);
    if ((came.get(id) ?? body) !== body) breaks(`${id} came as ${came.get(id)}, and as ${body}`);
    came.set(id, body);
    if (random.chance(refuses)) return 500;
    accepted.set(id, body);
    return 204;
  }

  /** What a process has of it: answers, and none within its time. */
  function connect(process: Process) {
    let calls = 0;
    return async (call: { headers: Record<string, string>; body: string }): Promise<Outcome> => {
      const execute = async () => receive(call);
      const lane = `${process.name} ${(calls += 1)}`;
      const sent = process.ask({ server: 'receiver', lane, label: `post ${call.headers['webhook-id']}`, execute });
      const status = withTimeout(process.clock, WITHIN_MS, sent);
      return status.then(
        (of): Outcome => ({ status: of, durationMs: 1 }),
        (error: Error): Outcome => ({ error: error.message, durationMs: 1 }),
      );
    };
  }

  return {
    connect,
    /** Faults end. */
    recover: () => void (refuses = 0),
    /** Holds what came against what happened, once nothing waits. */
    prove(): void {
      const events = [...accepted.values()].map((body) => JSON.parse(body));
      const numbers = new Set<string>();
      for (const { type, sequence, data } of events) {
        const number = `${data.apiKeyId ?? data.billingId} ${sequence}`;
        if (numbers.has(number)) breaks(`two events have the number ${sequence} of ${data.apiKeyId ?? data.billingId}`);
        numbers.add(number);
        if (!TYPES.includes(type)) breaks(`${type} came, which nobody asked for`);
      }
      for (const type of ['key.created', 'key.rotated', 'key.deleted'] as const) {
        const all = asked.flatMap(({ request, answer }) => {
          const { operationId, params } = request as { operationId: string; params?: Json };
          return saysOf(operationId, params?.akid, answer && (answer.body ?? null)).filter((one) => one.type === type);
        });
        const told = events.filter((event) => event.type === type);
        for (const id of new Set(all.flatMap((one) => (one.isSure ? [one.id] : [])))) {
          const sure = all.filter((one) => one.isSure && one.id === id).length;
          // Whoever deletes it again at the same time gets the same answer.
          const least = type === 'key.deleted' ? 1 : sure;
          const count = told.filter(({ data }) => data.apiKeyId === id).length;
          if (count < least) breaks(`${type} of ${id} happened ${least} times, and was told ${count} times`);
        }
        if (told.length > all.length)
          breaks(`${type} was told ${told.length} times, and happened ${all.length} times at most`);
      }
      const began = events.filter(({ type }) => type === 'grant.began').map(({ data }) => data.grantId);
      if (new Set(began).size < began.length) breaks(`a grant began twice: ${began.join()}`);
      for (const { id, state, beginsAt, mayBeVoid } of model.meters.flatMap(({ grants }) => grants))
        if (state === 'sure' && !mayBeVoid && beginsAt <= simulation.nowMs() && !began.includes(id))
          breaks(`the grant ${id} began, and nobody was told`);
    },
  };
}

/** What a request did to keys: for sure, or perhaps where it has no answer. */
function saysOf(operationId: string, keyId: string, body: Json): { type: string; id?: string; isSure: boolean }[] {
  // It was refused.
  if (body === null) return [];
  const isSure = body !== undefined;
  switch (operationId) {
    case 'createKey':
      return [{ type: 'key.created', id: body?.apiKey.id, isSure }];
    case 'importKeys': {
      const [{ result, apiKey }] = body?.results ?? [{}];
      return isSure && !['imported', 'restored'].includes(result)
        ? []
        : [{ type: 'key.created', id: apiKey?.id, isSure }];
    }
    case 'rotateKey':
      return [{ type: 'key.rotated', id: keyId, isSure }];
    case 'deleteKey':
      return [{ type: 'key.deleted', id: keyId, isSure }];
  }
  return [];
}

/** Whom the program calls. */
export type Called = { receiver: Receiver; billed: Pick<ReturnType<typeof makeBilled>, 'connect'> };

/** The program that delivers. What it hears of webhooks comes within a second; meters are looked at as often as without. */
export async function startWebhooks(simulation: Simulation, servers: Servers, { receiver, billed }: Called) {
  const process = simulation.startProcess('webhooks');
  const config = readConfig(programs.webhooks, servers.env);
  const sql = Object.assign(servers.postgres.connect(process, servers.pools.webhooks), {
    listen: async (channel: string, hear: () => void) => {
      const end = channel === METERS_CHANNEL ? () => {} : process.clock.every(1_000, hear);
      return { unlisten: async () => end() };
    },
  });
  const options = {
    sql: sql as never,
    sealer: webhookSealer([config.MASTER_KEY]),
    metrics,
    log: logOf(simulation, process),
    clock: process.clock,
    random: simulation.random.next,
  };
  await startDelivering({ ...options, call: receiver.connect(process), retriesMs: RETRIES_MS });
  await startSendingMeters({ ...options, call: billed.connect(process) });
  return { process };
}
