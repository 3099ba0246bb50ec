// Builds Helm and fetches the schemas of Kubernetes, with which the chart is tested.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describeFailure, StackError } from '../../apps/stack/process/errors.ts';

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
      throw new StackError(`Helm could not be built with Go 1.24 or newer: ${reason(error)}`);
    });
  });
  const schemas = await kept(SCHEMAS, 'kubernetes_validate/kubernetes-json-schema', async (folder) => {
    say('fetching the schemas of Kubernetes by pip (some 23 MB)');
    const flags = ['--quiet', '--no-deps', '--no-compile', '--require-hashes', '--target', folder, '-r', REQUIREMENTS];
    await run('python3', ['-m', 'pip', 'install', ...flags], { timeout: 10 * 60_000 }).catch((error: unknown) => {
      throw new StackError(`the schemas of Kubernetes could not be fetched by pip: ${reason(error)}`);
    });
  });
  return { TEST_HELM: helm, TEST_KUBERNETES_SCHEMAS: schemas };
}

/** A file of a folder of the cache, which `make` fills if it is not there; renamed when it is whole. */
async function kept(name: string, file: string, make: (folder: string) => Promise<void>): Promise<string> {
  const cache = process.env.KEYTALLY_CACHE || join(homedir(), '.cache/keytally');
  const folder = join(cache, name);
  const path = join(folder, file);
  if (statSync(path, { throwIfNoEntry: false })) return path;
  mkdirSync(cache, { recursive: true });
  const fresh = mkdtempSync(join(cache, `${name}.new-`));
  try {
    await make(fresh);
    rmSync(folder, { recursive: true, force: true });
    renameSync(fresh, folder);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return path;
}

function reason(error: unknown): string {
  const lines = ((error as { stderr?: string }).stderr ?? '').trim().split('\n');
  return lines.findLast((line) => line && !line.startsWith('go: downloading')) || describeFailure(error);
}
