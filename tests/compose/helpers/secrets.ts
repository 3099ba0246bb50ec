import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../../../apps/stack/process/home.ts';

/** Makes the secrets as `make up` does, in a folder of their own; gives the content of each. */
export function makeSecrets(folder: string): Record<string, string> {
  const script = 'apps/stack/compose.sh';
  mkdirSync(join(folder, 'apps/stack'), { recursive: true });
  cpSync(join(checkout, script), join(folder, script));
  execFileSync('sh', [script, 'secrets'], { cwd: folder });
  const secrets = readdirSync(join(folder, 'secrets'));
  return Object.fromEntries(secrets.map((name) => [name, readFileSync(join(folder, 'secrets', name), 'utf8').trim()]));
}
