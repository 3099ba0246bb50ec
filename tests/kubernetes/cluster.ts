import { execFile } from 'node:child_process';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { stopProcess } from '../../apps/stack/process/processes.ts';
import { answersOk, start, untilReady, type Program, type Started } from '../../apps/stack/process/program.ts';
import type { ControlPlane } from './programs.ts';

/** A cluster without nodes: etcd, an API server, and the controllers that make pods of deployments and the like. */
export type Cluster = {
  /** Asks the API server. `body` is a merge patch where the method is PATCH. */
  ask<T = unknown>(method: string, path: string, body?: object): Promise<T>;
  /** Runs kubectl or Helm on it; `input` is what the program reads. */
  run(program: string, args: string[], input?: string): Promise<{ stdout: string; stderr: string }>;
  stop(): Promise<void>;
};

export async function startCluster(folder: string, programs: ControlPlane): Promise<Cluster> {
  mkdirSync(folder, { recursive: true });
  const [etcdPort = 0, peerPort = 0, port = 0, controllersPort = 0] = await freePorts(4);
  const url = `https://127.0.0.1:${port}`;
  const token = randomBytes(24).toString('hex');
  const at = (name: string) => join(folder, name);
  const write = (name: string, content: string) => {
    writeFileSync(at(name), content, { mode: 0o600 });
    return at(name);
  };
  const tokens = write('tokens.csv', `${token},admin,admin,system:masters\n`);
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const signing = write('signing.pem', privateKey.export({ type: 'pkcs8', format: 'pem' }));
  // The API server makes it when it starts.
  const certificate = at('apiserver.crt');
  const kubeconfig = write(
    'kubeconfig',
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'here', cluster: { server: url, 'certificate-authority': certificate } }],
      users: [{ name: 'admin', user: { token } }],
      contexts: [{ name: 'here', context: { cluster: 'here', user: 'admin' } }],
      'current-context': 'here',
    }),
  );

  const started: Started[] = [];
  const run = async (one: Pick<Program, 'name' | 'port' | 'command' | 'args' | 'isReady'>) => {
    const log = at(`${one.name}.log`);
    // By this name the test folder ends what is left when a run is cut off.
    const env = { ...process.env, TEST_FOLDER: folder };
    const program: Program = { ...one, env, stopSignal: 'SIGTERM', stopWithinMs: 10_000 };
    started.unshift(await start(program, log));
    await untilReady(program, started[0]!, log, 180_000);
  };
  const etcd = `http://127.0.0.1:${etcdPort}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  const etcdArgs = {
    'data-dir': at('etcd'),
    'listen-client-urls': etcd,
    'advertise-client-urls': etcd,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': `default=${peer}`,
  };
  const apiserverArgs = {
    'etcd-servers': etcd,
    'bind-address': '127.0.0.1',
    'secure-port': port,
    'advertise-address': '127.0.0.1',
    'endpoint-reconciler-type': 'none',
    'cert-dir': folder,
    'token-auth-file': tokens,
    'authorization-mode': 'RBAC',
    'service-cluster-ip-range': '10.96.0.0/16',
    'service-account-issuer': 'https://kubernetes.default.svc',
    'service-account-key-file': signing,
    'service-account-signing-key-file': signing,
  };
  const controllersArgs = {
    kubeconfig,
    'bind-address': '127.0.0.1',
    'secure-port': controllersPort,
    'cert-dir': folder,
    'service-account-private-key-file': signing,
    'leader-elect': false,
  };
  const flags = (args: object) => Object.entries(args).map(([name, value]) => `--${name}=${value}`);

  const ask = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': contentType };
      request(url + path, { method, headers, ca: readFileSync(certificate) }, resolve)
        .on('error', reject)
        .end(body && JSON.stringify(body));
    });
    const answer = await text(response);
    if (response.statusCode! >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${answer}`);
    return JSON.parse(answer) as T;
  };
  const answers = (path: string) =>
    ask('GET', path).then(
      () => true,
      () => false,
    );
  const stop = async () => {
    for (const one of started) await stopProcess(one, 'SIGTERM', 10_000);
  };

  try {
    await run({
      name: 'etcd',
      port: etcdPort,
      command: programs.etcd,
      args: flags(etcdArgs),
      isReady: () => answersOk(`${etcd}/readyz`),
    });
    await run({
      name: 'apiserver',
      port,
      command: programs.apiserver,
      args: flags(apiserverArgs),
      isReady: () => answers('/api/v1/namespaces/default'),
    });
    await run({
      name: 'controllers',
      port: controllersPort,
      command: programs.controllers,
      args: flags(controllersArgs),
      // A controller makes the account: from then on pods are admitted.
      isReady: () => answers('/api/v1/namespaces/default/serviceaccounts/default'),
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    ask,
    run(program, args, input) {
      const env = { PATH: process.env.PATH, HOME: folder, KUBECONFIG: kubeconfig };
      const running = promisify(execFile)(program, args, { env, maxBuffer: 64 * 1024 * 1024 });
      running.child.stdin?.end(input ?? '');
      return running;
    },
    stop,
  };
}
