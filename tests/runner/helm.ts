// Builds Helm and fetches the schemas of Kubernetes, with which the chart is tested.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { reasonOf } from '../../apps/stack/process/errors.ts';
import { kept } from '../../apps/stack/servers/kept.ts';

const run = promisify(execFile);

// Builds with Go 1.24, as in Debian 13, and newer. Go checks the sources against its database of checksums.
const HELM = 'v3.19.5';
const REQUIREMENTS = join(import.meta.dirname, 'kubernetes-requirements.txt');
const SCHEMAS = 'kubernetes-validate-1.37.0';

/** Gives the command of Helm, and the folder with the schemas of Kubernetes. Both are kept for all checkouts of a user. */
export async function ensureHelm(say: (line: string) => void): Promise<Record<string, string>> {
  const helm = await kept(`helm-${HELM}`, 'helm', async (folder) => {
    say('building Helm (some two minutes on two cores)');
    const env = { ...process.env, GOTOOLCHAIN: 'local', GOBIN: folder, GOFLAGS: '-trimpath' };
    const build = ['install', '-ldflags', '-s -w', `helm.sh/helm/v3/cmd/helm@${HELM}`];
    await run('go', build, { env, cwd: folder, timeout: 20 * 60_000 }).catch((error: unknown) => {
      throw new StackError(`Helm could not be built with Go 1.24 or newer: ${reasonOf(error)}`);
    });
  });
  const schemas = await kept(SCHEMAS, 'kubernetes_validate/kubernetes-json-schema', async (folder) => {
    say('fetching the schemas of Kubernetes by pip (some 23 MB)');
    const flags = ['--quiet', '--no-deps', '--no-compile', '--require-hashes', '--target', folder, '-r', REQUIREMENTS];
    await run('python3', ['-m', 'pip', 'install', ...flags], { timeout: 10 * 60_000 }).catch((error: unknown) => {
      throw new StackError(`the schemas of Kubernetes could not be fetched by pip: ${reasonOf(error)}`);
    });
  });
  return { TEST_HELM: helm, TEST_KUBERNETES_SCHEMAS: schemas };
}
