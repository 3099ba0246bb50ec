import { execFile, spawn } from 'node:child_process';
import { once as onceEmitted } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { checkout } from '../../apps/stack/process/home.ts';
import { freePorts, reservePort } from '../../apps/stack/process/ports.ts';
import { atEnd } from './at-end.ts';
import { learnContract } from './contract.ts';
import { totalOf } from './customers.ts';
import { eventually } from './eventually.ts';
import { decided, once, request, type Answer } from './request.ts';

export type StackKey = { id: string; key: string; billingId: string; meter: string; valid: number };
type Result = { code: number; out: string; err: string };

/** A stack in a home and on ports of its own, through the commands as an operator gives them. */
export async function makeOwnStack(folder: string) {
  const home = join(folder, 'home');
  let port: number;
  let workspaceId = '';
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  do [port = 0] = await freePorts(1);
  while (!(await reservePort(port + 1)));
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
  const argsOf = (command: string, file?: string) => [
    'apps/stack/main.ts',
    command,
    ...(file === undefined ? [] : [file]),
  ];

  const token = () => /^export KEYTALLY_TOKEN='(.*)'$/m.exec(readFileSync(join(home, 'env'), 'utf8'))?.[1] ?? '';
  async function api(method: 'get' | 'post' | 'patch', path: string, body?: object): Promise<Answer> {
    const headers = method === 'post' ? once() : {};
    const answer = await decided(request(apiUrl + path, method, { token: token(), headers, ...(body && { body }) }));
    assert.ok(answer.status < 300, answer.text);
    return answer;
  }

  const own = {
    home,
    apiUrl,
    api,
    workspaceId: () => workspaceId,
    run(command: string, file?: string, env: NodeJS.ProcessEnv = {}): Promise<Result> {
      return new Promise((resolve) => {
        execFile(
          process.execPath,
          argsOf(command, file),
          { cwd: checkout, env: environment(env) },
          (error, out, err) => {
            resolve({ code: error ? Number(error.code ?? 1) : 0, out, err });
          },
        );
      });
    },
    /** Runs a command that must succeed. */
    async must(command: string, file?: string, env: NodeJS.ProcessEnv = {}): Promise<Result> {
      const result = await this.run(command, file, env);
      assert.is(result.code, 0, result.err + result.out);
      return result;
    },
    /** Starts a command; `said` gives what it has printed so far. */
    spawn(command: string, file: string, env: NodeJS.ProcessEnv = {}) {
      const child = spawn(process.execPath, argsOf(command, file), {
        cwd: checkout,
        env: environment(env),
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let said = '';
      for (const output of [child.stdout, child.stderr])
        output.setEncoding('utf8').on('data', (text: string) => (said += text));
      return { child, ended: onceEmitted(child, 'close'), said: () => said };
    },
    /** Starts the stack for the first time, with a workspace; gives what that printed. */
    async begin(env: NodeJS.ProcessEnv = {}): Promise<Result> {
      const started = await this.must('up', undefined, env);
      await Promise.all([learnContract(apiUrl), learnContract(verifyUrl)]);
      workspaceId = (await api('post', '/api/v1/workspace', { name: 'own stack' })).body.workspace.id;
      return started;
    },
    /** Runs lines in a shell; gives what they print, line by line. */
    paste(lines: string[]): Promise<string[]> {
      return new Promise((resolve) => {
        execFile('sh', ['-c', lines.join('\n')], (_error, out) => resolve(out.trim().split('\n')));
      });
    },
    async makeKey(): Promise<StackKey> {
      const meter = `meter-${Math.random()}`;
      const fields = { workspaceId, externalMeterId: meter };
      const { body } = await api('post', '/api/v1/customer-billing', { ...fields, totalCredits: '1000000' });
      const { apiKey } = (await api('post', '/api/v1/api-key', { ...fields, name: 'k' })).body;
      return { id: apiKey.id, key: apiKey.key, billingId: body.billing.id, meter, valid: 0 };
    },
    /** Verifies a key, and counts what the client saw as valid. */
    async verify(key: StackKey, headers: Record<string, string> = {}): Promise<Answer> {
      const answer = await request(`${verifyUrl}/api/v1/api-key/verify`, 'post', {
        token: token(),
        headers,
        body: { key: key.key, billing: { usage: '1' } },
      });
      if (answer.body.status === 'VALID') key.valid += 1;
      return answer;
    },
    /** Verifies a key so many times, and repeats each call until it is decided: it is valid, and debited once. */
    async verifyTimes(key: StackKey, times: number): Promise<void> {
      for (let i = 0; i < times; i++) {
        const headers = once();
        const { text, body } = await eventually('it is decided', async () => {
          const answer = await this.verify(key, headers);
          return answer.status === 503 ? undefined : answer;
        });
        assert.is(body.status, 'VALID', text);
      }
    },
    async usageOf({ billingId }: StackKey): Promise<string> {
      return totalOf((await api('get', `/api/v1/usage/${billingId}`)).body.data);
    },
    async usedOf({ meter }: StackKey): Promise<string> {
      const query = new URLSearchParams({ workspaceId, externalMeterId: meter });
      return (await api('get', `/api/v1/customer-billing?${query.toString()}`)).body.billing.usedCredits;
    },
  };
  atEnd(() => own.run('down'));
  return own;
}
