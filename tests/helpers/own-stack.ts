import { execFile, spawn } from 'node:child_process';
import { once as onceEmitted } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { readJson } from '../../apps/stack/process/files.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { freePair } from './free-pair.ts';
import { atEnd } from './at-end.ts';
import { learnContract } from './contract.ts';
import { makeCustomers, newWorkspace, type Customers, type TestKey } from './customers.ts';
import { decided, once, request, type Answer, type RequestOptions } from './request.ts';

type Result = { code: number; out: string; err: string };

/** A stack in a home and on ports of its own, through the commands as an operator gives them. */
export async function makeOwnStack(folder: string) {
  const home = join(folder, 'home');
  const port = await freePair();
  let workspaceId = '';
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  const apiUrl = `http://127.0.0.1:${port}`;
  const verifyUrl = `http://127.0.0.1:${port + 1}`;
  const environment = (more: NodeJS.ProcessEnv) => ({
    ...process.env,
    KEYTALLY_HOME: home,
    KEYTALLY_PORT: String(port),
    // A busy machine misses the usual 250 ms.
    VERIFY_DEADLINE_MS: '5000',
    ...more,
  });
  const token = () => /^export KEYTALLY_TOKEN='(.*)'$/m.exec(readFileSync(join(home, 'env'), 'utf8'))?.[1] ?? '';
  // As a world is to those who make customers.
  const world = {
    call: (method: string, path: string, body?: unknown, options: RequestOptions = {}) =>
      request(apiUrl + path, method, { token: token(), body, ...options }),
    verify: { url: verifyUrl },
    get team() {
      return { token: token() };
    },
  };
  let customers: Customers;

  const own = {
    home,
    apiUrl,
    async api(method: 'get' | 'post' | 'patch', path: string, body?: object): Promise<Answer> {
      const headers = method === 'post' ? once() : {};
      const answer = await decided(world.call(method, path, body, { headers }));
      assert.ok(answer.status < 300, answer.text);
      return answer;
    },
    workspaceId: () => workspaceId,
    /** What runs, by its name. */
    processes: (): Record<string, { pid: number; port: number }> => readJson(join(home, 'processes.json')) ?? {},
    async run(command: string, file?: string, env?: NodeJS.ProcessEnv): Promise<Result> {
      const { ended, printed } = own.spawn(command, file, env);
      const [code] = await ended;
      return { code: Number(code ?? 1), ...printed };
    },
    /** Runs a command that must succeed. */
    async must(command: string, file?: string, env?: NodeJS.ProcessEnv): Promise<Result> {
      const result = await own.run(command, file, env);
      assert.is(result.code, 0, result.err + result.out);
      return result;
    },
    /** Starts a command; `said` gives what it has printed so far. */
    spawn(command: string, file?: string, env: NodeJS.ProcessEnv = {}) {
      const child = spawn(process.execPath, ['apps/stack/main.ts', command, ...(file === undefined ? [] : [file])], {
        cwd: checkout,
        env: environment(env),
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const printed = { out: '', err: '' };
      child.stdout.setEncoding('utf8').on('data', (text: string) => (printed.out += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => (printed.err += text));
      return { child, ended: onceEmitted(child, 'close'), printed, said: () => printed.out + printed.err };
    },
    /** Starts the stack for the first time, with a workspace; gives what that printed. */
    async begin(env: NodeJS.ProcessEnv = {}): Promise<Result> {
      const started = await this.must('up', undefined, env);
      await Promise.all([learnContract(apiUrl), learnContract(verifyUrl)]);
      workspaceId = await newWorkspace(world, { name: 'own stack' });
      customers = makeCustomers(world, workspaceId);
      return started;
    },
    /** Runs lines in a shell; gives what they print, line by line. */
    paste(lines: string[]): Promise<string[]> {
      return new Promise((resolve) => {
        execFile('sh', ['-c', lines.join('\n')], (_error, out) => resolve(out.trim().split('\n')));
      });
    },
    makeKey: () => customers.meteredKey('1000000'),
    verify: ({ key }: TestKey, headers = {}) => customers.verify({ key, billing: { usage: '1' } }, { headers }),
    /** Verifies a key so many times, and repeats each call until it is decided: it is valid, and debited once. */
    async verifyTimes(key: TestKey, times: number): Promise<void> {
      for (let i = 0; i < times; i++) await customers.spend(key, '1');
    },
    usageOf: ({ meter }: TestKey) => customers.usage(meter),
    usedOf: async ({ meter }: TestKey) => (await customers.billing(meter)).usedCredits,
  };
  atEnd(() => own.run('down'));
  return own;
}
