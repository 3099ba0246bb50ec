// The program of docs/protect-node.md that charges a streamed answer by its tokens, run as it stands.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  blocksOf,
  installPackage,
  link,
  project,
  run,
  strict,
  tsc,
  write,
} from '../../clients/node/helpers/project.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { parseCredits } from '../../shared/values/credits.ts';
import { makeCustomers, must, type TestKey } from '../helpers/customers.ts';
import { eventually, makeWorld } from '../helpers/world.ts';

const amounts = ['usedCredits', 'availableCredits', 'heldCredits'] as const;
type Amount = (typeof amounts)[number];
type Streamed = { status: number; tokens: number; isWhole: boolean };

const world = await makeWorld(['verify', 'consumer']);
const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
const customers = makeCustomers(world, workspace.id);
installPackage();
for (const name of ['express', '@types/node', '@types/express']) link(name);
const blocks = blocksOf('docs/protect-node.md', 'ts');
const isServer = (block: string) => block.includes('captureAtEnd');
write(
  'model.ts',
  blocks.find((block) => block.includes('[DONE]') && !isServer(block))!,
);
write('server.ts', blocks.find(isServer)!);
run([tsc, ...strict('nodenext'), '--skipLibCheck', '--types', 'node', 'model.ts', 'server.ts'], project);
const [port, modelPort] = await freePorts(2);
const env = {
  KEYTALLY_VERIFY_URL: world.verify!.url,
  KEYTALLY_TOKEN: world.team.token,
  PORT: String(port),
  MODEL_PORT: String(modelPort),
};
const model = spawn(process.execPath, ['model.js'], { cwd: project, env, stdio: 'inherit' });
const server = spawn(process.execPath, ['server.js'], { cwd: project, env, stdio: 'inherit' });
const url = `http://127.0.0.1:${port}/complete`;
for (const one of [url, `http://127.0.0.1:${modelPort}/`])
  await eventually('it listens', () => fetch(one, { method: 'POST', body: '{"prompt":""}' }).catch(() => undefined));
test.after(async () => {
  for (const program of [model, server]) {
    if (!program || program.exitCode !== null) continue;
    program.kill('SIGKILL');
    await once(program, 'exit');
  }
});

test('200 streams at once on a budget for 120: none that began is cut, the budget is kept, and the books add up', async () => {
  // The most of each is 50 tokens, 0.05 credits; the shortest has 20. All 200 would cost more than 8 credits.
  const customer = await customers.meteredKey('6');
  const lengths = Array.from({ length: 200 }, (_, i) => 20 + (i % 41));
  const streams = await Promise.all(lengths.map((words) => stream(customer, words, 50)));
  const passed = streams.filter((one) => one.status === 200);
  assert.ok(streams.every(({ status }) => status === 200 || status === 402));
  assert.ok(passed.length >= 120 && passed.length < 200, `${passed.length} passed`);
  for (const [i, { status, tokens, isWhole }] of streams.entries())
    if (status === 200) assert.equal([tokens, isWhole], [Math.min(lengths[i]!, 50), true]);
  const used = passed.reduce((sum, { tokens }) => sum + 1_000 * tokens, 0);
  assert.ok(used <= 6_000_000);
  const { usedCredits, availableCredits } = await untilSettled(customer);
  assert.equal([usedCredits, availableCredits], [used, 6_000_000 - used]);
  await eventually('the books have all of it', async () => {
    return parseCredits((await customers.usage(customer.meter)) ?? '0') === used;
  });
});

function ask({ key }: TestKey, words: number, mostTokens: number, signal?: AbortSignal): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ prompt: Array(words).fill('word').join(' '), max_tokens: mostTokens }),
    ...(signal && { signal }),
  });
}

async function stream(customer: TestKey, words: number, mostTokens: number): Promise<Streamed> {
  const answer = await ask(customer, words, mostTokens);
  const streamed = await text(answer.body!);
  return { status: answer.status, tokens: tokensOf(streamed), isWhole: streamed.endsWith('data: [DONE]\n\n') };
}

function tokensOf(streamed: string): number {
  return streamed.split('"token"').length - 1;
}

/** The five amounts of a customer, in micro-credits. */
async function amountsOf({ meter }: TestKey): Promise<Record<Amount, number>> {
  const billing = (await customers.billing(meter)) as unknown as Record<Amount, string>;
  return Object.fromEntries(amounts.map((name) => [name, parseCredits(billing[name])!])) as Record<Amount, number>;
}

function untilSettled(customer: TestKey): Promise<Record<Amount, number>> {
  return eventually('all is captured or released', async () => {
    const now = await amountsOf(customer);
    return now.heldCredits === 0 ? now : undefined;
  });
}
