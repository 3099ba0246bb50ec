import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../../../apps/stack/process/home.ts';

/** Makes the secrets as `make up` does, in a folder of their own; gives the content of each. */
export function makeSecrets(folder: string): Record<string, string> {
  const made = makeCheckout(folder);
  made.run('up');
  return made.secrets();
}

/**
 * A checkout with only what `make up` needs for Docker Compose, and a `docker` that records its calls and answers as its
 * environment says: the calls can be tested without a Docker engine.
 */
export function makeCheckout(folder: string) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'apps/stack'), { recursive: true });
  mkdirSync(join(folder, 'bin'));
  const files = ['Makefile', 'Dockerfile', 'docker-compose.yml', 'apps/stack/stack.sh', 'apps/stack/compose.sh'];
  for (const file of files) {
    cpSync(join(checkout, file), join(folder, file));
  }
  // Stands in for the stack of one machine.
  executable('apps/stack/install.sh', '#!/bin/sh\n');
  mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true });
  executable('node_modules/.bin/node', '#!/bin/sh\necho native: "$@"\n');
  executable(
    'bin/docker',
    `#!/bin/sh
echo "$@" >>'${folder}/calls'
case "$*" in
info | 'compose version') [ "\${ENGINE:-yes}" = yes ] ;;
'compose port api 8080') echo 127.0.0.1:8080 ;;
'compose port verify 8081') echo 127.0.0.1:8081 ;;
'compose config') echo 'name: keytally' ;;
*' ps --services') printf '%s\\n' \${RUNNING:-} ;;
'ps -q --filter label=com.docker.compose.project=keytally --filter label=com.docker.compose.oneoff=True')
  [ "\${RESTORING:-no}" = no ] || echo container ;;
'volume ls -q --filter name=^keytally_redis$') [ "\${VOLUMES:-none}" = none ] || echo keytally_redis ;;
*restore.ts*) cat >>'${folder}/restored'; [ "\${RESTORE:-good}" = good ] ;;
*backup.ts*) echo backup-of-everything; [ "\${BACKUP:-good}" = good ] ;;
*token.ts*) echo "kt_$(wc -l <'${folder}/calls' | tr -d ' ')" ;;
esac
`,
  );

  function executable(file: string, text: string): void {
    writeFileSync(join(folder, file), text);
    chmodSync(join(folder, file), 0o755);
  }

  return {
    folder,
    run(...args: (string | Record<string, string>)[]) {
      const target = args.filter((one) => typeof one === 'string');
      const env = Object.assign({}, ...args.filter((one) => typeof one !== 'string')) as Record<string, string>;
      // Without the settings that the user may have for a stack of their own.
      const PATH = `${join(folder, 'bin')}:${process.env.PATH}`;
      rmSync(join(folder, 'calls'), { force: true });
      const { status, stdout, stderr } = spawnSync('make', ['-s', ...target], {
        cwd: folder,
        env: { PATH, ...env },
        encoding: 'utf8',
      });
      const calls = existsSync(join(folder, 'calls')) ? readFileSync(join(folder, 'calls'), 'utf8') : '';
      return { status, out: stdout, err: stderr, calls: calls.trimEnd().split('\n') };
    },
    secrets(): Record<string, string> {
      const names = readdirSync(join(folder, 'secrets')).filter((name) => name !== 'env');
      return Object.fromEntries(
        names.map((name) => [name, readFileSync(join(folder, 'secrets', name), 'utf8').trim()]),
      );
    },
  };
}
