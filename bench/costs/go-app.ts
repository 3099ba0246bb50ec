import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { checkout } from '../../apps/stack/process/home.ts';
import { ensureGo } from '../../tests/runner/go.ts';

/** Builds the API on net/http that is measured, and gives its command. */
export async function buildGoApp(folder: string): Promise<string> {
  const env = await ensureGo(console.log);
  const binary = join(folder, 'go-app');
  await promisify(execFile)(env.TEST_GO!, ['build', '-o', binary, './internal/benchapp'], {
    cwd: join(checkout, 'clients/go'),
    env: { ...process.env, ...env },
  });
  return binary;
}
