import { execFile, execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { freePorts } from '../../../apps/stack/process/ports.ts';
import { keytally, type Keytally, type KeytallyError } from '../../../clients/node/index.ts';
import { readComposeFile } from '../../compose/helpers/compose-file.ts';
import { freePair } from '../../helpers/free-pair.ts';
import { copyTree } from '../../mutants/copy.ts';
import { patiently, type Engine } from './engine.ts';

type Result = { code: number; out: string; err: string };
type Compose = { services?: Record<string, object>; volumes?: Record<string, object> };

// Longer than any server takes to come back.
const PATIENT_MS = 300_000;

/** A checkout with a stack on Docker Compose, through the commands as an operator gives them. `more` goes into a Compose file of its own. */
export async function makeComposeStack(engine: Engine, folder: string, more: Compose = {}) {
  copyTree(folder);
  const port = await freePair();
  writeFileSync(join(folder, 'of-this-machine.json'), JSON.stringify(ofThisMachine()));
  writeFileSync(join(folder, 'more.json'), JSON.stringify(more));
  const env: NodeJS.ProcessEnv = {
    ...engine.env,
    // The runner's own is that of its programs.
    LOG_LEVEL: 'info',
    KEYTALLY_PORT: String(port),
    GRAFANA_PORT: String((await freePorts(1))[0]),
    COMPOSE_FILE: 'docker-compose.yml:of-this-machine.json:more.json',
  };

  const stack = {
    folder,
    port,
    env,
    run(command: string, args: string[], extra: NodeJS.ProcessEnv = {}): Promise<Result> {
      return new Promise((resolve) => {
        const options = { cwd: folder, env: { ...env, ...extra }, maxBuffer: 64 * 1024 * 1024 };
        execFile(command, args, options, (error, out, err) =>
          resolve({ code: error ? Number(error.code ?? 1) : 0, out, err }),
        );
      });
    },
    make: (...args: string[]) => stack.run('make', ['-s', ...args]),
    /** A command that must succeed; gives what it printed. */
    async must(...args: string[]): Promise<string> {
      const { code, out, err } = await stack.make(...args);
      assert.is(code, 0, `make ${args.join(' ')}: ${(out + err).slice(-2_000)}`);
      return out;
    },
    async compose(...args: string[]): Promise<string> {
      const { code, out, err } = await stack.run('docker', ['compose', ...args]);
      assert.is(code, 0, `docker compose ${args.join(' ')}: ${err}`);
      return out.trim();
    },
    container: async (service: string) => (await stack.compose('ps', '-aq', service)).split('\n')[0]!,
    /** Runs a program in a container of a service. */
    exec: (service: string, ...args: string[]) => stack.run('docker', ['compose', 'exec', '-T', service, ...args]),
    async state(service: string): Promise<{ Status: string; Health?: { Status: string } }> {
      return JSON.parse(await engine.docker('inspect', '-f', '{{json .State}}', await stack.container(service)));
    },
    /** Waits until every container that has a health check passes it. */
    async healthy(): Promise<void> {
      const services = Object.entries(readComposeFile().services).filter(
        ([name, { profiles }]) => !profiles && name !== 'migrate',
      );
      const isHealthy = async (name: string) => (await stack.state(name)).Health?.Status === 'healthy';
      for (const [name] of services) await patiently(`${name} is healthy`, () => isHealthy(name));
    },
    /** What `make up` wrote down. */
    address(name: 'API_URL' | 'VERIFY_URL' | 'TOKEN'): string {
      const text = readFileSync(join(folder, 'secrets/env'), 'utf8');
      return new RegExp(`^export KEYTALLY_${name}='(.*)'$`, 'm').exec(text)![1]!;
    },
    client(): Keytally {
      return keytally({
        url: stack.address('API_URL'),
        verifyUrl: stack.address('VERIFY_URL'),
        token: stack.address('TOKEN'),
        timeoutMs: PATIENT_MS,
        verifyTimeoutMs: PATIENT_MS,
      });
    },
    /** Sends verifications one after the other while something happens, each until it is decided; gives how many. */
    async under(load: Customer, work: () => Promise<void>): Promise<number> {
      const client = stack.client();
      let sent = 0;
      let over = false;
      const loading = Promise.all(
        Array.from({ length: 4 }, async () => {
          while (!over) {
            const again = { idempotencyKey: crypto.randomUUID() };
            const ask = () => client.verify({ key: load.key, billing: { usage: '0.25', usageName: 'tokens' } }, again);
            assert.is((await patiently('it is decided', () => ask().catch(undecided))).status, 'VALID');
            sent += 1;
          }
        }),
      );
      await Promise.all([loading, work().finally(() => (over = true))]);
      load.calls += sent;
      return sent;
    },
    /** The books, the balance and what was answered are one. */
    async proven({ workspaceId, calls }: Customer): Promise<void> {
      const client = stack.client();
      const { billing } = await client.billing.get({ workspaceId, externalMeterId: 'acme' });
      assert.is(Number(billing.usedCredits), calls / 4);
      await patiently('the books have it', async () => {
        const { data } = await client.usage.daily({ bid: billing.id });
        return data.reduce((sum, day) => sum + day.events, 0) === calls;
      });
      assert.match(await stack.must('reconcile'), /^\d+ exact, 0 differ, 0 undecided/);
    },
    async customer(): Promise<Customer> {
      const client = stack.client();
      const { workspace } = await client.workspaces.create({ name: 'load' });
      const owner = { workspaceId: workspace.id, externalMeterId: 'acme' };
      await client.billing.create({ ...owner, totalCredits: '1000000' });
      const { apiKey } = await client.apiKeys.create({ ...owner, name: 'load' });
      return { workspaceId: workspace.id, key: apiKey.key, calls: 0 };
    },
  };
  return stack;
}

/** A key with credits, and how many calls of it were answered. */
export type Customer = { workspaceId: string; key: string; calls: number };

// No answer, or a 503: the same call is sent again.
function undecided(error: KeytallyError): undefined {
  if (error.status !== 0 && error.status !== 503) throw error;
}

// Builds reach the registries that this machine reaches, and no container may open more files than this machine lets its own programs. On
// a busy one a health check that is slow is not taken for a failed one, and a verification is not undecided after the usual 250 ms.
function ofThisMachine(): Compose {
  const most = Number(execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })) || Infinity;
  const services = Object.entries(readComposeFile().services).map(([name, { build, ulimits, healthcheck }]) => [
    name,
    {
      ...(!healthcheck?.disable && { healthcheck: { timeout: '60s', retries: 60, start_period: '20m' } }),
      ...(name === 'verify' && { environment: { VERIFY_DEADLINE_MS: '10000' } }),
      ...(build !== undefined && { build: { network: 'host' } }),
      ...(ulimits !== undefined && { ulimits: { nofile: Math.min((ulimits as { nofile: number }).nofile, most) } }),
    },
  ]);
  return { services: Object.fromEntries(services) };
}
