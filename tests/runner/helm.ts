import { join } from 'node:path';
import { keptFromPip } from '../../apps/stack/servers/kept.ts';
import { keptFromGo } from './kept-from-go.ts';

// Builds with Go 1.24, as in Debian 13, and newer.
const HELM = { name: 'Helm', version: 'v3.19.5', module: 'helm.sh/helm/v3/cmd/helm', file: 'helm' };
const REQUIREMENTS = join(import.meta.dirname, 'kubernetes-requirements.txt');
const SCHEMAS = 'kubernetes-validate-1.37.0';

/** Gives the command of Helm, and the folder with the schemas of Kubernetes, with which the chart is tested. Both are kept for all checkouts of a user. */
export async function ensureHelm(say: (line: string) => void): Promise<Record<string, string>> {
  const helm = await keptFromGo(HELM, say);
  const file = 'kubernetes_validate/kubernetes-json-schema';
  const schemas = await keptFromPip(SCHEMAS, file, REQUIREMENTS, ['--no-deps', '--no-compile']);
  return { TEST_HELM: helm, TEST_KUBERNETES_SCHEMAS: schemas };
}
