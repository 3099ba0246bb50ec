import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { nodeArguments } from '../../apps/stack/servers/programs.ts';
import { learnContract } from './contract.ts';
import { eventually } from './eventually.ts';

export type Program = 'api' | 'verify' | 'consumer' | 'relay' | 'webhooks';

/** A program of ours, running as a process of its own, as `make up` runs it. */
export type Started = { url: string; process: ChildProcess; stop(signal?: NodeJS.Signals): Promise<void> };

/** Each is called with everything that programs write from then on. */
export const outputListeners = new Set<(text: string) => void>();

/** Starts a program and waits until it is ready. */
export async function startProgram(program: Program, env: Record<string, string>): Promise<Started> {
  const started = await spawnProgram(program, env);
  const probes = env.OPS_PORT ? `http://127.0.0.1:${env.OPS_PORT}` : started.url;
  const isReady = async () => (await fetch(`${probes}/readyz`)).ok;
  await eventually(`${program} is ready`, isReady).catch((error: unknown) => {
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
function spawnProgram(program: Program, env: Record<string, string>): Promise<{ url: string; process: ChildProcess }> {
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
      for (const listener of outputListeners) listener(text);
      for (const line of text.split('\n')) if (/"level":(50|60)/.test(line)) process.stderr.write(`${line}\n`);
      if (listening) return;
      seen += text;
      const port = /"port":(\d+)/.exec(seen)?.[1];
      if (!port) return;
      listening = true;
      resolve({ url: `http://127.0.0.1:${port}`, process: child });
    });
  });
}
