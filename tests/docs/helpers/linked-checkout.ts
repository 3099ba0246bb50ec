import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../../../apps/stack/process/home.ts';
import { freePair } from '../../helpers/free-pair.ts';

type Ran = { code: number; out: string; err: string };
/** A folder that is the checkout with a stack of its own: `make up` there disturbs no other. */
export type LinkedCheckout = {
  /** Runs a script in the folder, by `sh` or `bash`, which ends at its first failure. */
  run(shell: string, script: string, env?: NodeJS.ProcessEnv): Promise<Ran>;
};

const ownNames = ['.git', '.keytally', 'secrets'];

/** Makes such a folder in the test's own: everything that is not the stack's is a link. */
export async function linkCheckout(): Promise<LinkedCheckout> {
  // One level down: pages make projects beside it.
  const folder = join(process.env.TEST_FOLDER ?? '', 'work', 'checkout');
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  for (const name of readdirSync(checkout)) {
    if (!ownNames.includes(name)) symlinkSync(join(checkout, name), join(folder, name));
  }
  const port = await freePair();
  return {
    async run(shell, script, env = {}) {
      const file = join(folder, `page.${shell}`);
      writeFileSync(file, script);
      const own = {
        STACK: 'native',
        KEYTALLY_HOME: join(folder, '.keytally'),
        KEYTALLY_PORT: String(port),
        // A busy machine misses the usual 250 ms.
        VERIFY_DEADLINE_MS: '5000',
      };
      const { PATH, HOME } = process.env;
      const child = spawn(shell, ['-e', file], {
        cwd: folder,
        env: { PATH, HOME, ...own, ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let [out, err] = ['', ''];
      child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
      const code = await new Promise<number>((resolve, reject) => {
        child.once('error', reject);
        child.once('close', (code) => resolve(code ?? 1));
      });
      return { code, out, err };
    },
  };
}
