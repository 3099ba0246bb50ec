// The program of docs/protect-node.md that charges a streamed answer by its tokens, run as it stands.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { suite } from 'uvu';
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
import { makeCustomers, must, type Customers, type TestKey } from '../helpers/customers.ts';
import { eventually, makeWorld, type World } from '../helpers/world.ts';

const amounts = ['totalCredits', 'usedCredits', 'availableCredits', 'heldCredits', 'expiredCredits'] as const;
type Amount = (typeof amounts)[number];
type Streamed = { status: number; tokens: number; isWhole: boolean };

let world: World;
let customers: Customers;
let model: ChildProcess;
let server: ChildProcess;
let url: string;

const test = suite('the program that charges a streamed answer by its tokens');
test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  customers = makeCustomers(world, workspace.id);
  installPackage();
  for (const name of ['express', '@types/node', '@types/express']) link(name);
  const blocks = blocksOf('docs/protect-node.md', 'ts');
  write(
    'model.ts',
    blocks.find((block) => block.includes('[DONE]') && block.includes('createServer'))!,
  );
  write(
    'server.ts',
    blocks.find((block) => block.includes('captureAtEnd'))!,
  );
  run([tsc, ...strict('nodenext'), '--skipLibCheck', '--types', 'node', 'model.ts', 'server.ts'], project);
  const [port, modelPort] = await freePorts(2);
  const env = {
    KEYTALLY_VERIFY_URL: world.verify!.url,
    KEYTALLY_TOKEN: world.team.token,
    PORT: String(port),
    MODEL_PORT: String(modelPort),
  };
  model = spawn(process.execPath, ['model.js'], { cwd: project, env, stdio: 'inherit' });
  server = spawn(process.execPath, ['server.js'], { cwd: project, env, stdio: 'inherit' });
  url = `http://127.0.0.1:${port}/complete`;
  for (const one of [url, `http://127.0.0.1:${modelPort}/`])
    await eventually('it listens', () => fetch(one, { method: 'POST', body: '{"prompt":""}' }).catch(() => undefined));
});
test.after(async () => {
  for (const program of [model, server]) {
    if (!program || program.exitCode !== null) continue;
    program.kill('SIGKILL');
    await once(program, 'exit');
  }
  await world?.stop();
});

test('200 streams at once on a budget for 120: none that began is cut, the budget is kept, and the statement adds up', async () => {
  // The most of each is 50 tokens, 0.05 credits; the shortest has 20.
  const customer = await customers.meteredKey('6');
  const lengths = Array.from({ length: 200 }, (_, i) => 20 + (i % 41));
  const streams = await Promise.all(lengths.map((words) => stream(customer, words, 50)));
  const [passed, refused] = [streams.filter((one) => one.status === 200), streams.filter((one) => one.status === 429)];
  assert.is(passed.length + refused.length, 200);
  // All 200 would cost more than 8 credits.
  assert.ok(passed.length >= 120 && passed.length < 200, `${passed.length} passed`);
  for (const [i, { status, tokens, isWhole }] of streams.entries())
    if (status === 200) assert.equal([tokens, isWhole], [Math.min(lengths[i]!, 50), true]);
  const usedMicros = passed.reduce((sum, { tokens }) => sum + 1_000 * tokens, 0);
  assert.ok(usedMicros <= 6_000_000);

  const billing = await untilSettled(customer);
  assert.equal(billing, {
    totalCredits: 6_000_000,
    usedCredits: usedMicros,
    availableCredits: 6_000_000 - usedMicros,
    heldCredits: 0,
    expiredCredits: 0,
  });
  type Row = { billingUsageName: string; totalBillingUsage: string; events: number };
  const { id } = await customers.billing(customer.meter);
  await eventually('the statement has all of it', async () => {
    const { data } = (await must(200, world.call('get', `/api/v1/usage/${id}`))).body as { data: Row[] };
    const sum = (of: (row: Row) => number) => data.reduce((total, row) => total + of(row), 0);
    const names = new Set(data.map((row) => row.billingUsageName));
    return (
      sum(({ events }) => events) === passed.length &&
      sum(({ totalBillingUsage }) => parseCredits(totalBillingUsage)!) === usedMicros &&
      names.size === 1 &&
      names.has('tokens')
    );
  });
});

test('an end client that leaves before the first token pays nothing, and what was held is free', async () => {
  const customer = await customers.meteredKey('1');
  // The model is asked, and answers nothing.
  model.kill('SIGSTOP');
  try {
    const leaving = new AbortController();
    const answer = await ask(customer, 10, 1000, leaving.signal);
    assert.is(answer.status, 200);
    assert.is((await amountsOf(customer)).heldCredits, 1_000_000);
    leaving.abort();
    await eventually('it is released', async () => (await amountsOf(customer)).availableCredits === 1_000_000);
  } finally {
    model.kill('SIGCONT');
  }
  assert.is((await amountsOf(customer)).usedCredits, 0);
});

test('an end client that leaves in the middle pays for the tokens until then', async () => {
  const customer = await customers.meteredKey('1');
  const leaving = new AbortController();
  const { body } = await ask(customer, 1000, 1000, leaving.signal);
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
  let seen = '';
  while (tokensOf(seen) < 3) seen += (await reader.read()).value ?? '';
  leaving.abort();
  await reader.closed.catch(() => {});
  const { usedCredits } = await untilSettled(customer);
  assert.ok(usedCredits >= 1_000 * tokensOf(seen) && usedCredits < 1_000_000, `${usedCredits} micro-credits`);
});

test('a request that the model could not answer is refused before anything is held', async () => {
  const customer = await customers.meteredKey('1');
  assert.is((await ask(customer, 1, 1001)).status, 400);
  assert.is((await amountsOf(customer)).availableCredits, 1_000_000);
});

test.run();

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
