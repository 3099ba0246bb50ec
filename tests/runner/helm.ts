// Builds Helm and fetches the schemas of Kubernetes, with which the chart is tested.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { kept, keptFromPip } from '../../apps/stack/servers/kept.ts';

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
    const running = promisify(execFile)('go', build, { env, cwd: folder, timeout: 20 * 60_000 });
    await running.catch(({ stderr, message }: { stderr?: string; message: string }) => {
      const lines = (stderr ?? '').trim().split('\n');
      const why = lines.findLast((line) => line && !line.startsWith('go: downloading')) || message;
      throw new StackError(`Helm could not be built with Go 1.24 or newer: ${why}`);
    });
  });
  const file = 'kubernetes_validate/kubernetes-json-schema';
  const schemas = await keptFromPip(SCHEMAS, file, REQUIREMENTS, ['--no-deps', '--no-compile']);
  return { TEST_HELM: helm, TEST_KUBERNETES_SCHEMAS: schemas };
}
