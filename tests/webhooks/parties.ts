import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeReceiverCertificate } from '../../apps/webhooks/helpers/receiver.ts';
import { webhookEventTypes } from '../../shared/contract/webhook-events.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { must } from '../helpers/customers.ts';
import type { Program } from '../helpers/start-program.ts';
import { spawnWorld, type Spawned, type ProcessWorld } from '../helpers/world.ts';
import type { Received } from './receiver.ts';

const TRIES = 50;
const killable = ['api', 'verify', 'consumer', 'webhooks', 'webhooks 2', 'receiver'] as const;
/** What is killed while events come. */
export type Killable = (typeof killable)[number];

type Certificate = ReturnType<typeof makeReceiverCertificate>;
export type TestReceiver = { webhookId: string; received(): Received[]; start(): Promise<void>; kill(): Promise<void> };
export type Parties = Awaited<ReturnType<typeof makeParties>>;

/** All programs, two of those that deliver, a receiver that fails half the time and is slow, and one that is neither. */
export async function makeParties() {
  const certificate = makeReceiverCertificate();
  const [failing = 0, steady = 0] = await freePorts(2);
  const world = await spawnWorld(['verify', 'consumer'], {
    WEBHOOK_ALLOWED_TARGETS: `127.0.0.1:${failing},127.0.0.1:${steady}`,
    WEBHOOK_RETRY_SECONDS: Array.from({ length: TRIES - 1 }, () => 1).join(),
    NODE_EXTRA_CA_CERTS: certificate.certificate,
  });
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'told' }))).body;
  const receivers = {
    failing: await makeReceiver(world, { port: failing, fails: true, certificate }),
    steady: await makeReceiver(world, { port: steady, fails: false, certificate }),
  };
  const running = new Map<string, Spawned>([
    ['api', world.api],
    ['verify', world.verify!],
    ['consumer', world.consumer!],
    ['webhooks', await world.start('webhooks')],
    ['webhooks 2', await world.start('webhooks')],
  ]);
  return {
    world,
    workspaceId: workspace.id as string,
    receivers,
    /** The address of a program as it runs now. */
    url: (name: 'api' | 'verify') => running.get(name)!.url,
    /** Kills one with `kill -9`, and starts it again. */
    async kill(name: Killable): Promise<void> {
      if (name === 'receiver') {
        await receivers.failing.kill();
        await receivers.failing.start();
        return;
      }
      await running.get(name)!.stop('SIGKILL');
      running.set(name, await world.start(name.split(' ')[0] as Program));
    },
    async stop() {
      await Promise.all(Object.values(receivers).map((one) => one.kill()));
      await world.stop();
    },
  };
}

async function makeReceiver(
  world: ProcessWorld,
  { port, fails, certificate }: { port: number; fails: boolean; certificate: Certificate },
): Promise<TestReceiver> {
  const body = { url: `https://127.0.0.1:${port}/in`, events: webhookEventTypes };
  const { webhook } = (await must(201, world.call('post', '/api/v1/webhook', body))).body;
  const log = join(process.env.TEST_FOLDER ?? '', `received-${port}.jsonl`);
  const env = {
    RECEIVER_PORT: String(port),
    RECEIVER_CERTIFICATE: certificate.certificate,
    RECEIVER_KEY: certificate.key,
    RECEIVER_SECRET: webhook.secret,
    RECEIVER_LOG: log,
    RECEIVER_FAILS: fails ? 'half' : '',
  };
  let child: ChildProcess | undefined;
  const receiver: TestReceiver = {
    webhookId: webhook.id,
    received: () => (existsSync(log) ? lines(readFileSync(log, 'utf8')) : []),
    async start() {
      child = spawn(process.execPath, [join(import.meta.dirname, 'receiver.ts')], {
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      await once(child.stdout!, 'data');
    },
    async kill() {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
  await receiver.start();
  return receiver;
}

// The last line of one that was killed may be cut off: it never answered that request.
function lines(text: string): Received[] {
  return text.split('\n').flatMap((line) => (line.endsWith('}') ? [JSON.parse(line) as Received] : []));
}
