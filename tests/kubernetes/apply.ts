import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { checkout } from '../../apps/stack/process/home.ts';
import { exampleFile } from '../helm/helpers/chart.ts';
import { eventually } from '../helpers/eventually.ts';
import type { Cluster } from './cluster.ts';
import type { standInForNodes } from './stand-in.ts';

const chart = join(checkout, 'deploy/helm');
const OURS = ['api', 'verify', 'relay', 'consumer', 'webhooks'];
const NEXT = `sha256:${'1'.repeat(64)}`;

type Given = {
  cluster: Cluster;
  nodes: ReturnType<typeof standInForNodes>;
  helm: string;
  kubectl: string;
  example: string;
  /** The folder of `make secrets`. */
  secrets: string;
};
type Place = Given & {
  /** Runs Helm or kubectl in the example's namespace, which has its name. */
  helmRun(...args: string[]): Promise<{ stdout: string; stderr: string }>;
  kubectlRun(args: string[], input?: string): Promise<{ stdout: string; stderr: string }>;
  list<T>(group: string, kind: string): Promise<T[]>;
};
type Workload = {
  metadata: { name: string };
  spec: { replicas: number };
  status: { updatedReplicas?: number; availableReplicas?: number };
};
type Pod = { metadata: { labels: Record<string, string> }; spec: { containers: { image: string }[] } };
type Event = { reason: string; message: string };
type Budget = { status: { disruptionsAllowed: number } };
type Scaler = { spec: { minReplicas: number } };

/** Does with an example what docs/kubernetes.md says: installs it, upgrades it, takes it back and removes it. Gives a line of what was made. */
export async function applyExample(given: Given): Promise<string> {
  const { cluster, helm, kubectl, example } = given;
  const inNamespace = ['--namespace', example];
  const place: Place = {
    ...given,
    helmRun: (...args) => cluster.run(helm, [...args, ...inNamespace]),
    kubectlRun: (args, input) => cluster.run(kubectl, [...args, ...inNamespace], input),
    list: async <T>(group: string, kind: string) =>
      (await cluster.ask<{ items: T[] }>('GET', `${group}/namespaces/${example}/${kind}`)).items,
  };
  await prepare(place);
  await tryStrictly(place);
  await install(place);
  const kinds = 'all,ingress,networkpolicy,pdb,hpa,servicemonitor,prometheusrule';
  const { stdout: objects } = await place.kubectlRun(['get', kinds, '--output', 'name']);
  await replace(place, 'forward');
  await replace(place, 'back');
  await place.helmRun('uninstall', 'keytally', '--wait');
  await eventually('no pod is left', async () => (await podsOf(place)).length === 0);
  const made = objects.trim().split('\n');
  const pods = made.filter((name) => name.startsWith('pod/')).length;
  return `${example}: ${made.length} objects, ${pods} of them pods: installed, upgraded, taken back, removed`;
}

/** Makes the namespace, which refuses pods with root, rights or a folder of the node, and what an operator makes before. */
async function prepare({ cluster, kubectlRun, example, secrets }: Place): Promise<void> {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  await cluster.ask('POST', '/api/v1/namespaces', { metadata: { name: example, labels } });
  const secret = example === 'vault' ? 'keytally-production' : 'keytally';
  await kubectlRun(['create', 'secret', 'generic', secret, `--from-file=${secrets}`]);
  if (example !== 'large') return;
  const priority = { metadata: { name: 'keytally-verify' }, value: 1 };
  await cluster.ask('POST', '/apis/scheduling.k8s.io/v1/priorityclasses', priority);
}

/** The API server knows every field of every manifest, and refuses a misspelt one. */
async function tryStrictly({ helmRun, kubectlRun, example }: Place): Promise<void> {
  const version = ['--kube-version', '1.37.0'];
  const { stdout: manifests } = await helmRun(
    'template',
    'keytally',
    chart,
    ...version,
    '--values',
    exampleFile(example),
  );
  const create = ['create', '--dry-run=server', '--validate=strict', '--filename', '-'];
  await kubectlRun(create, manifests);
  const misspelt = manifests.replaceAll('containerPort:', 'containerport:');
  const said = await kubectlRun(create, misspelt).then(() => '', String);
  assert.match(said, 'unknown field "spec.template.spec.containers[0].ports[0].containerport"');
}

async function install(place: Place): Promise<void> {
  const { nodes, kubectlRun, list, example } = place;
  const isTrial = example.startsWith('trial');
  // As the page has it: programs of trial servers wait for migrations, which run after the wait.
  await release(place, 'install', ...(isTrial ? [] : ['--wait', '--timeout', '5m']));
  const { programs } = nodes.takeSeen(example);
  if (isTrial) assert.ok(programs.includes('migrate'));
  else assert.is(programs[0], 'migrate', 'nothing starts before the schemas are migrated');
  for (const name of ['api', 'verify']) await kubectlRun(['rollout', 'status', `deploy/keytally-${name}`]);
  await eventually('a node with a pod of any program can be drained', async () => {
    const budgets = await list<Budget>('/apis/policy/v1', 'poddisruptionbudgets');
    return budgets.every(({ status }) => status.disruptionsAllowed > 0);
  });
}

/** Replaces every program by another image, or takes that back; no verify ends before another is ready. */
async function replace(place: Place, way: 'forward' | 'back'): Promise<void> {
  const { nodes, helmRun, example } = place;
  const verifies = (await podsOf(place, ['verify'])).length;
  nodes.takeSeen(example);
  const wait = ['--wait', '--timeout', '5m'];
  if (way === 'forward') await release(place, 'upgrade', '--set', `image.digest=${NEXT}`, ...wait);
  else await helmRun('rollback', 'keytally', '1', ...wait);
  await settled(place);
  const seen = nodes.takeSeen(example);
  assert.is(seen.programs.includes('migrate'), way === 'forward', `${way}: the schemas are migrated forward alone`);
  assert.ok(seen.fewestVerify >= verifies, `${way}: ${seen.fewestVerify} of ${verifies} verifies were ready`);
  const areNew = (await podsOf(place, OURS)).map(({ spec }) => spec.containers[0]!.image.endsWith(NEXT));
  assert.equal(new Set(areNew), new Set([way === 'forward']), `${way}: every program is replaced`);
}

async function release(place: Place, command: 'install' | 'upgrade', ...args: string[]): Promise<void> {
  const { stderr } = await place.helmRun(command, 'keytally', chart, '--values', exampleFile(place.example), ...args);
  // The chart's links to files of the repository are meant.
  const said = stderr.split('\n').filter((line) => line && !line.includes('found symbolic link in path'));
  assert.equal(said, [], 'the API server warns of nothing');
  await settled(place);
}

/** Waits until all pods are there and of the newest kind, as many as an autoscaler wants at least; none may have been refused. */
async function settled(place: Place): Promise<void> {
  const { list, example } = place;
  await eventually(`all pods of ${example}`, async () => {
    const deployments = await list<Workload>('/apis/apps/v1', 'deployments');
    const found = [...deployments, ...(await list<Workload>('/apis/apps/v1', 'statefulsets'))];
    const [scaler] = await list<Scaler>('/apis/autoscaling/v2', 'horizontalpodautoscalers');
    const verify = found.find(({ metadata }) => metadata.name === 'keytally-verify')!;
    const areReady = found.every(
      ({ spec: { replicas }, status }) => status.availableReplicas === replicas && status.updatedReplicas === replicas,
    );
    const all = found.reduce((sum, { spec }) => sum + spec.replicas, 0);
    return areReady && verify.spec.replicas >= (scaler?.spec.minReplicas ?? 0) && (await podsOf(place)).length === all;
  });
  const events = await list<Event>('/api/v1', 'events');
  const refused = events.filter(({ reason }) => reason === 'FailedCreate').map(({ message }) => message);
  assert.equal(refused, [], 'no pod is refused');
}

async function podsOf({ list }: Place, programs?: string[]): Promise<Pod[]> {
  const pods = await list<Pod>('/api/v1', 'pods');
  const isOf = ({ metadata }: Pod) => programs?.includes(metadata.labels['app.kubernetes.io/component']!) ?? true;
  return pods.filter(isOf);
}
