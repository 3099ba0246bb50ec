import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { checkout } from '../../../apps/stack/process/home.ts';

export type Peer = {
  podSelector?: { matchLabels: Record<string, string> };
  ipBlock?: { cidr: string; except?: string[] };
};
export type Rule = { ports: { protocol: string; port?: number }[]; from?: Peer[]; to?: Peer[] };
export type Container = {
  name: string;
  command?: string[];
  env?: { name: string; value?: string; valueFrom?: { fieldRef: { fieldPath: string } } }[];
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean; subPath?: string }[];
  securityContext: object;
  resources: { requests: Record<string, string>; limits: Record<string, string> };
  readinessProbe?: { httpGet?: { path: string } };
};
export type Pod = {
  automountServiceAccountToken: boolean;
  securityContext: { runAsNonRoot: boolean; runAsUser: number };
  containers: Container[];
  volumes: {
    name: string;
    secret?: { secretName: string; items?: { key: string; path: string }[] };
    emptyDir?: object;
  }[];
};
export type Manifest = {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels: Record<string, string> };
  spec: {
    template?: { spec: Pod };
    podSelector?: { matchLabels: Record<string, string> };
    ingress?: Rule[];
    egress?: Rule[];
  };
};

const chart = join(checkout, 'deploy/helm');

/** The example files of values, by name. */
export const examples = globSync('examples/*.yaml', { cwd: chart })
  .toSorted()
  .map((path) => basename(path, '.yaml'));

export const exampleFile = (name: string): string => join(chart, 'examples', `${name}.yaml`);

/** Runs Helm on the chart; gives what it says, also when it fails. */
export async function helm(command: string, ...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const folder = process.env.TEST_FOLDER ?? '';
  const env = { PATH: process.env.PATH, HOME: folder, HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder };
  const [program = ''] = [process.env.TEST_HELM];
  const release = command === 'template' ? ['keytally'] : [];
  // Built from its source, Helm takes 1.20 for the version of a cluster that it does not ask.
  const version = ['--kube-version', '1.27.0'];
  try {
    const all = [command, ...release, chart, ...version, ...args];
    const { stdout, stderr } = await promisify(execFile)(program, all, { env, maxBuffer: 64 * 1024 * 1024 });
    return { code: 0, out: stdout, err: withoutLinks(stderr) };
  } catch (error) {
    const { code, stdout = '', stderr = '' } = error as { code?: number; stdout?: string; stderr?: string };
    return { code: code ?? 1, out: stdout, err: withoutLinks(stderr) };
  }
}

/** The manifests that an example makes. */
export async function render(example: string, ...args: string[]): Promise<Manifest[]> {
  const { code, out, err } = await helm('template', '--values', exampleFile(example), ...args);
  if (code !== 0) throw new Error(`${example}: ${err}`);
  // As Kubernetes reads it: 0440 is octal.
  const documents = parseAllDocuments(out, { version: '1.1' });
  if (!Array.isArray(documents)) return [];
  const problems = documents.flatMap((one) => [...one.errors, ...one.warnings]);
  if (problems.length > 0) throw new Error(`${example}: ${problems.join('\n')}`);
  return documents.map((one) => one.toJS() as Manifest | null).filter((one) => one !== null);
}

/** The pods of an example, by the program or server that runs in them. */
export function podsOf(manifests: Manifest[]): Map<string, Pod> {
  return new Map(
    manifests.flatMap(({ metadata, spec }) =>
      spec?.template ? [[metadata.labels['app.kubernetes.io/component']!, spec.template.spec] as const] : [],
    ),
  );
}

// The chart's links to files of the repository are meant.
function withoutLinks(text: string): string {
  return text.replaceAll(/^.*found symbolic link in path.*\n/gm, '');
}
