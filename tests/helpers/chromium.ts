import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createInterface } from 'node:readline';

/** A page in a headless Chromium. */
export type Page = {
  /** Opens an address and waits until it is loaded. */
  open(url: string): Promise<void>;
  /** Evaluates an expression in the page, and awaits a promise. */
  evaluate<Value>(expression: string): Promise<Value>;
  /** Addresses that the page requested so far, and its complaints: errors, warnings, violations of its policy. */
  requests: string[];
  complaints: string[];
  close(): Promise<void>;
};

type Message = { id?: number; method?: string; params?: any; result?: any; error?: { message: string } };

/** Starts a Chromium and controls it by its DevTools protocol. */
export async function openChromium(command: string, folder: string): Promise<Page> {
  mkdirSync(folder, { recursive: true });
  const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'];
  const args = [...flags, '--remote-debugging-port=0', `--user-data-dir=${folder}`, 'about:blank'];
  const chromium = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  const protocol = await connectTo(await addressIn(chromium.stderr));
  const { targetId } = await protocol.ask('Target.createTarget', { url: 'about:blank' });
  const { sessionId } = await protocol.ask('Target.attachToTarget', { targetId, flatten: true });
  const ask = (method: string, params: object = {}) => protocol.ask(method, params, sessionId as string);

  const requests: string[] = [];
  const complaints: string[] = [];
  protocol.on('Network.requestWillBeSent', ({ request }) => requests.push(request.url));
  protocol.on('Log.entryAdded', ({ entry }) => complaints.push(`${entry.level}: ${entry.text}`));
  protocol.on('Runtime.exceptionThrown', ({ exceptionDetails }) => complaints.push(JSON.stringify(exceptionDetails)));
  protocol.on('Runtime.consoleAPICalled', ({ type, args }) => {
    if (type === 'error' || type === 'warning') complaints.push(`${type}: ${JSON.stringify(args)}`);
  });
  for (const domain of ['Page', 'Network', 'Log', 'Runtime']) await ask(`${domain}.enable`);

  return {
    requests,
    complaints,
    async open(url) {
      const loaded = protocol.next('Page.loadEventFired');
      await ask('Page.navigate', { url });
      await loaded;
    },
    async evaluate(expression) {
      const given = await ask('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
      if (given.exceptionDetails) throw new Error(JSON.stringify(given.exceptionDetails));
      return given.result.value;
    },
    async close() {
      // Kill all of its processes: each holds the pipe that we read.
      process.kill(-chromium.pid!, 'SIGKILL');
      chromium.stderr.destroy();
      protocol.close();
      await once(chromium, 'exit');
    },
  };
}

async function addressIn(stderr: NodeJS.ReadableStream): Promise<string> {
  for await (const line of createInterface({ input: stderr })) {
    const address = /^DevTools listening on (ws:\S+)/.exec(line)?.[1];
    if (address) {
      // Keep reading, or it would block on a full pipe.
      stderr.resume();
      return address;
    }
  }
  throw new Error('Chromium ended before it was ready');
}

async function connectTo(address: string) {
  const socket = new WebSocket(address);
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve);
    socket.addEventListener('error', reject);
  });
  const waiting = new Map<number, (message: Message) => void>();
  const listeners = new Map<string, ((params: any) => void)[]>();
  const on = (method: string, listener: (params: any) => void) =>
    void listeners.set(method, [...(listeners.get(method) ?? []), listener]);
  socket.addEventListener('message', ({ data }) => {
    const message = JSON.parse(String(data)) as Message;
    if (message.id !== undefined) waiting.get(message.id)?.(message);
    for (const listener of listeners.get(message.method ?? '') ?? []) listener(message.params);
  });
  let last = 0;
  return {
    on,
    close: () => socket.close(),
    next: (method: string) => new Promise((resolve) => on(method, resolve)),
    ask: (method: string, params: object, sessionId?: string) =>
      new Promise<any>((resolve, reject) => {
        const id = ++last;
        waiting.set(id, ({ result, error }) => {
          waiting.delete(id);
          if (error) reject(new Error(`${method}: ${error.message}`));
          else resolve(result);
        });
        socket.send(JSON.stringify({ id, method, params, sessionId }));
      }),
  };
}
