// Installs a Docker engine, Docker Compose, and what the base images are made of, for tests of images and containers.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { runToEnd, StackError } from '../../apps/stack/process/errors.ts';
import { cacheFolder, kept } from '../../apps/stack/servers/kept.ts';
import { ensureProgram, type Wanted } from '../../apps/stack/servers/packages.ts';
import { ensurePackaged } from './packaged.ts';

const COMPOSE = 'v2.39.4';
const run = promisify(execFile);

const packaged = (what: string, command: string, name: string): Wanted => ({
  what,
  commands: [command, `/usr/sbin/${command}`],
  version: '--version',
  packages: [name],
  brew: `${name}, which runs on Linux alone`,
  missing: `containers are tested with ${what}, which is not installed`,
});

/** Installs them; gives where Docker finds Compose. The engines themselves are started by the tests. */
export async function ensureEngine(say: (line: string) => void): Promise<Record<string, string>> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    throw new StackError('only root on Linux can start a Docker engine');
  const answers = await run('docker', ['info'], { timeout: 30_000 }).then(
    ({ stdout }) => stdout.includes('Server Version'),
    () => false,
  );
  if (answers) throw new StackError('a Docker engine runs here, and two share their networks: stop it for these tests');
  await ensureProgram(packaged('a Docker engine', 'dockerd', 'docker.io'), say);
  await ensureProgram(packaged('debootstrap', 'debootstrap', 'debootstrap'), say);
  return { TEST_DOCKER_CONFIG: await ensureCompose(say), TEST_ENGINE: join(cacheFolder(), 'engine') };
}

/** A folder of Docker's settings in which Compose is a plugin. It is built from its module, since `go install` refuses what that replaces. */
async function ensureCompose(say: (line: string) => void): Promise<string> {
  const plugin = 'cli-plugins/docker-compose';
  const path = await kept(`docker-compose-${COMPOSE}`, plugin, async (folder) => {
    const { TEST_GO: go = 'go' } = await ensurePackaged('go', say);
    say('building Docker Compose (some five minutes of one core)');
    const module = `github.com/docker/compose/v2@${COMPOSE}`;
    const failed = 'Docker Compose could not be built with Go';
    const { Dir } = JSON.parse(await runToEnd(failed, go, ['mod', 'download', '-json', module])) as { Dir: string };
    const source = join(folder, 'source');
    cpSync(Dir, source, { recursive: true });
    mkdirSync(join(folder, 'cli-plugins'));
    const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-trimpath' };
    const flags = `-s -w -X github.com/docker/compose/v2/internal.Version=${COMPOSE}`;
    const build = ['build', '-ldflags', flags, '-o', join(folder, plugin), './cmd'];
    await runToEnd(failed, go, build, { env, cwd: source, timeout: 30 * 60_000 });
    await run('chmod', ['-R', 'u+w', source]);
    rmSync(source, { recursive: true });
  });
  return path.slice(0, -plugin.length - 1);
}
