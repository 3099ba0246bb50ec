import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts } from '../../../apps/stack/process/ports.ts';
import { makeWebhooksWorld, type WebhooksWorld } from '../../../apps/webhooks/helpers/webhooks-world.ts';
import type { Got } from '../../../apps/webhooks/helpers/receiver.ts';
import { blocksOf } from '../../../clients/node/helpers/project.ts';
import { must } from '../../helpers/customers.ts';
import { eventually } from '../../helpers/eventually.ts';

type Example = {
  language: 'js' | 'py';
  file: string;
  command: string;
  env?: Record<string, string>;
  /** Makes what it imports. */
  prepare?(folder: string): void;
};

/** Runs a receiver of docs/webhooks.md as it stands, behind TLS, and tests what it does about deliveries. */
export function testReceiver({ language, file, command, env, prepare }: Example): void {
  const test = suite(`the receiver of docs/webhooks.md in ${language}`);
  const folder = join(process.env.TEST_FOLDER ?? '', 'receiver-example');
  let own: WebhooksWorld;
  let program: ChildProcess | undefined;
  let out = '';
  let port: number;

  // The proxy with TLS that stands before it.
  async function forward({ headers, body }: Got): Promise<number> {
    const { host: _, connection: __, ...kept } = headers as Record<string, string>;
    return (await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers: kept, body })).status;
  }

  test.before(async () => {
    own = await makeWebhooksWorld({
      receivers: 1,
      answers: [
        (got, response) => {
          forward(got).then(
            (status) => response.writeHead(status).end(),
            () => response.writeHead(502).end(),
          );
        },
      ],
      retries: '1,1,1,1,1,1',
    });
    [port = 0] = await freePorts(1);
    mkdirSync(folder, { recursive: true });
    prepare?.(folder);
    writeFileSync(
      join(folder, file),
      blocksOf('docs/webhooks.md', language).find((block) => block.includes('WEBHOOK_SECRET'))!,
    );
  });
  test.after(async () => {
    program?.kill('SIGKILL');
    await own?.stop();
  });

  async function start(secret: string): Promise<void> {
    const { PATH = '' } = process.env;
    program = spawn(command, [file], {
      cwd: folder,
      env: { PATH, ...env, WEBHOOK_SECRET: secret, PORT: String(port) },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    program.stdout!.setEncoding('utf8').on('data', (text: string) => (out += text));
    await eventually('it listens', () => fetch(`http://127.0.0.1:${port}/`, { method: 'POST' }).catch(() => undefined));
  }

  test('it takes what is signed, once however often it comes, and refuses what is not', async () => {
    const webhook = await own.newWebhook(own.receivers[0]!.url, ['key.created']);
    await start(webhook.secret);
    const keyId = await own.newKey('acme');
    const { id, eventId } = await own.ended(webhook.id, 'DELIVERED', 1);
    await must(200, own.world.call('post', `/api/v1/webhook/${webhook.id}/delivery/${id}/redeliver`));
    await own.ended(webhook.id, 'DELIVERED', 2);
    await eventually('it has told it', async () => out.includes('\n'));
    const [line, ...others] = out.trim().split('\n');
    const [told, type, ...data] = line!.split(' ');
    assert.equal([told, type, others], [eventId, 'key.created', []]);
    assert.is((JSON.parse(data.join(' ')) as { apiKeyId: string }).apiKeyId, keyId);

    const got = own.receivers[0]!.got.at(-1)!;
    assert.is(await forward(got), 204);
    assert.is(await forward({ ...got, body: got.body.replace('acme', 'evil') }), 401);
    const old = String(Math.floor(Date.now() / 1000) - 600);
    assert.is(await forward({ ...got, headers: { ...got.headers, 'webhook-timestamp': old } }), 401);
  });

  test('it goes on while its secret is changed: with either of the two it takes each event', async () => {
    const webhook = await own.newWebhook(own.receivers[0]!.url, ['key.deleted']);
    const { secret } = (await must(200, own.world.call('post', `/api/v1/webhook/${webhook.id}/rotate`))).body.webhook;
    for (const one of [webhook.secret, secret]) {
      program!.kill('SIGKILL');
      await once(program!, 'exit');
      await start(one);
      await own.sendTest(webhook.id);
      await own.ended(webhook.id, 'DELIVERED', 1);
    }
  });

  test.run();
}
