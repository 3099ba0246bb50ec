import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { nodeArguments } from '../../apps/stack/servers/programs.ts';
import type { Served } from '../../shared/http/serve.ts';
import { readConfig } from '../../shared/runtime/config.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { begin, type Whole } from '../../shared/runtime/run.ts';
import { atEnd } from './at-end.ts';
import { learnContract } from './contract.ts';
import { eventually } from './eventually.ts';

export type Program = 'api' | 'verify' | 'consumer' | 'relay' | 'webhooks';

/** A program of ours that runs in the process of the test. */
export type Started = { url: string; stop(): Promise<void> };
/** A program of ours, running as a process of its own, as `make up` runs it. */
export type Spawned = { url: string; process: ChildProcess; stop(signal?: NodeJS.Signals): Promise<void> };

/** Each is called with everything that programs write from then on. */
const outputListeners = new Set<(text: string) => void>();

/** Listens to programs until the end of the test file; gives the function that tells what they have written since. */
export function hearOutput(): () => string {
  let heard = '';
  const listener = (text: string) => void (heard += text);
  outputListeners.add(listener);
  atEnd(() => outputListeners.delete(listener));
  return () => heard;
}

/** Starts a program in this process and waits until it is ready. */
export async function startProgram(program: Program, env: Record<string, string>): Promise<Started> {
  const config = { ...readConfig(programs[program], env), HOST: '127.0.0.1' };
  const log = makeLogger(program, config.LOG_LEVEL, { write: hear });
  const started = await begin(program, config, log, await starters[program]());
  const url = `http://127.0.0.1:${started.port}`;
  await untilReady(program, started.opsPort ? `http://127.0.0.1:${started.opsPort}` : url).catch(async (error) => {
    await started.stop();
    throw error;
  });
  await learnContract(url, `${program} ${env.OPS_PORT ?? ''}`);
  return { url, stop: () => started.stop() };
}

type Starter = (config: any, whole: Whole) => Promise<Served>;
// Loaded by need: a test of verify alone need not wait for the api's routes.
const starters: Record<Program, () => Promise<Starter>> = {
  api: async () => (await import('../../apps/api/start.ts')).startApi,
  verify: async () => (await import('../../apps/verify/start.ts')).startVerify,
  relay: async () => (await import('../../apps/relay/start.ts')).startRelaying,
  webhooks: async () => (await import('../../apps/webhooks/start.ts')).startWebhooks,
  async consumer() {
    const { startConsumer } = await import('../../apps/consumer/start.ts');
    return (config, whole) =>
      startConsumer(config, whole, (error) => {
        throw error;
      });
  },
};

async function untilReady(program: Program, url: string): Promise<void> {
  await eventually(`${program} is ready`, async () => (await fetch(`${url}/readyz`)).ok);
}

function hear(text: string): void {
  for (const listener of outputListeners) listener(text);
  for (const line of text.split('\n')) if (/"level":[456]0/.test(line)) process.stderr.write(`${line}\n`);
}

/** Starts a program as a process of its own and waits until it is ready. */
export async function spawnProgram(program: Program, env: Record<string, string>): Promise<Spawned> {
  const started = await untilListening(program, env);
  await untilReady(program, env.OPS_PORT ? `http://127.0.0.1:${env.OPS_PORT}` : started.url).catch((error: unknown) => {
    // Left running, it would keep the test file from ending.
    started.process.kill('SIGKILL');
    throw error;
  });
  await learnContract(started.url, `${program} ${env.OPS_PORT ?? ''}`);
  return {
    ...started,
    async stop(signal = 'SIGTERM') {
      if (started.process.exitCode !== null || started.process.signalCode !== null) return;
      started.process.kill(signal);
      await once(started.process, 'exit');
    },
  };
}

/** Starts a program and waits until it says on which port it listens. */
function untilListening(
  program: Program,
  env: Record<string, string>,
): Promise<{ url: string; process: ChildProcess }> {
  return new Promise((resolve, reject) => {
    // With the run's folder in its environment it is found at the end wherever it is: it gets a session, as the stack's programs do.
    const detached = env.TEST_FOLDER !== undefined;
    const child = spawn(process.execPath, nodeArguments(program), { env, stdio: ['ignore', 'pipe', 'pipe'], detached });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      process.stderr.write(text);
      for (const listener of outputListeners) listener(text);
    });
    child.once('exit', (code) => reject(new Error(`${program} ended with ${code}`)));
    let seen = '';
    let listening = false;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      hear(text);
      if (listening) return;
      seen += text;
      const port = /"port":(\d+)/.exec(seen)?.[1];
      if (!port) return;
      listening = true;
      resolve({ url: `http://127.0.0.1:${port}`, process: child });
    });
  });
}
