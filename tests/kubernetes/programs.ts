import { execFile } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { reasonOf } from '../../apps/stack/process/errors.ts';
import { kept } from '../../apps/stack/servers/kept.ts';

// Each builds with Go 1.26. Go checks the sources against its database of checksums.
const KUBERNETES = 'v1.37.2';
const ETCD = 'v3.7.0';
const OPERATOR = 'github.com/prometheus-operator/prometheus-operator@v0.85.0';
const COMMANDS = ['kube-apiserver', 'kube-controller-manager', 'kubectl'];

/** The programs of a cluster without nodes, and the files with the kinds of the Prometheus operator. */
export type ControlPlane = {
  etcd: string;
  apiserver: string;
  controllers: string;
  kubectl: string;
  operatorKinds: string[];
};

/** Builds what a cluster consists of from its sources, unless it is there. It is kept for all checkouts of a user. */
export async function ensureControlPlane(say: (line: string) => void): Promise<ControlPlane> {
  // The last file that is made.
  const kubectl = await kept(`kubernetes-${KUBERNETES}`, 'kubectl', async (folder) => {
    say(`building Kubernetes ${KUBERNETES} from its source (some twenty minutes on two cores, once)`);
    await build(folder).catch((error: unknown) => {
      throw new StackError(`Kubernetes could not be built with Go 1.26 or newer: ${reasonOf(error)}`);
    });
  });
  const [etcd, apiserver, controllers, monitors, rules] = [
    'server',
    'kube-apiserver',
    'kube-controller-manager',
    ...operatorFiles,
  ].map((name) => join(dirname(kubectl), name)) as [string, string, string, string, string];
  return { etcd, apiserver, controllers, kubectl, operatorKinds: [monitors, rules] };
}

const operatorFiles = ['monitoring.coreos.com_servicemonitors.yaml', 'monitoring.coreos.com_prometheusrules.yaml'];

async function build(folder: string): Promise<void> {
  const env = { ...process.env, GOTOOLCHAIN: 'local', GOFLAGS: '-mod=mod', GOWORK: 'off' };
  const go = (...args: string[]) => promisify(execFile)('go', args, { env, cwd: folder, timeout: 90 * 60_000 });
  const download = async (module: string) =>
    JSON.parse((await go('mod', 'download', '-json', module)).stdout) as { Dir: string; GoMod: string };

  const { Dir: operator } = await download(OPERATOR);
  for (const file of operatorFiles) cpSync(join(operator, 'example/prometheus-operator-crd', file), join(folder, file));
  // Kubernetes takes its own libraries from folders that its module lacks; they are published under versions of their own.
  const { GoMod: file } = await download(`k8s.io/kubernetes@${KUBERNETES}`);
  const libraries = [...readFileSync(file, 'utf8').matchAll(/^\s*(k8s\.io\/\S+) => \.\/staging\//gm)];
  const version = KUBERNETES.replace('v1.', 'v0.');
  const lines = [
    'module keytally.dev/control-plane',
    'go 1.26.0',
    `require k8s.io/kubernetes ${KUBERNETES}`,
    `require go.etcd.io/etcd/server/v3 ${ETCD}`,
    ...libraries.map(([, library]) => `replace ${library} => ${library} ${version}`),
  ];
  writeFileSync(join(folder, 'go.mod'), `${lines.join('\n')}\n`);
  const [, major, minor] = KUBERNETES.split(/[v.]/);
  const named = { gitVersion: KUBERNETES, gitMajor: major, gitMinor: minor };
  const flags = Object.entries(named).map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`);
  const packages = ['go.etcd.io/etcd/server/v3', ...COMMANDS.map((name) => `k8s.io/kubernetes/cmd/${name}`)];
  await go('build', '-trimpath', '-ldflags', `-s -w ${flags.join(' ')}`, '-o', folder, ...packages);
}
