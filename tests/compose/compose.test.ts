// docker-compose.yml agrees with the Compose specification, with our programs and with the files that it names.
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  environmentProblems,
  interpolate,
  ourServices,
  readComposeFile,
  type Service,
} from './helpers/compose-file.ts';
import { makeSecrets } from './helpers/checkout.ts';
import { eventually } from '../helpers/eventually.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { nodeArguments } from '../../apps/stack/servers/programs.ts';

const text = read('docker-compose.yml');
const file = readComposeFile(text);
const services = Object.entries(file.services);
const published = ['api', 'verify', 'grafana'];
const secrets = makeSecrets(join(process.env.TEST_FOLDER ?? '', 'secrets'));

test('the file is valid by the Compose specification', () => {
  const schema = JSON.parse(read('tests/compose/testdata/compose-spec.json')) as Record<string, unknown>;
  const validate = new Ajv2020({ strict: false, allErrors: true }).compile(schema);
  assert.ok(validate(file), JSON.stringify(validate.errors, null, 1));
  assert.not.ok(validate({ services: { api: { imgae: 'x' } } }), 'the schema refuses what is not in it');
});

test('every program and every server is there, and only api and verify are published', () => {
  const names = services.filter(([, { profiles }]) => !profiles).map(([name]) => name);
  const servers = ['postgres', 'redis', 'kafka', 'clickhouse'];
  assert.equal(names.toSorted(), [...servers, 'migrate', 'api', 'verify', 'relay', 'consumer', 'webhooks'].toSorted());
  assert.equal(services.flatMap(([name, { ports }]) => (ports ? [name] : [])).toSorted(), published.toSorted());
  assert.equal(file.services.grafana?.profiles, ['monitoring']);
});

test('Node gets the options with which a stack without Docker runs each program', () => {
  for (const name of ['api', 'verify', 'relay', 'consumer', 'webhooks'] as const) {
    const ours = nodeArguments(name).map((one) => one.replace(`${checkout}/`, ''));
    assert.equal(file.services[name]!.command, ['node', ...ours], name);
  }
});

test('each program reaches the servers that it uses and no others, and no server reaches out', () => {
  const servers = ['postgres', 'redis', 'kafka', 'clickhouse'];
  const others = (one: string) => services.filter(([name]) => name !== one);
  const shares = (one: string, another: string) =>
    file.services[one]!.networks!.some((network) => file.services[another]!.networks!.includes(network));
  const reached = (one: string) => others(one).flatMap(([name]) => (shares(one, name) ? [name] : []));
  const table = {
    // Gateways are on the network of these two.
    api: ['postgres', 'redis', 'clickhouse', 'verify', 'prometheus'],
    verify: ['redis', 'api', 'prometheus'],
    relay: ['redis', 'kafka', 'prometheus'],
    consumer: ['postgres', 'redis', 'kafka', 'clickhouse', 'prometheus'],
    webhooks: ['postgres', 'prometheus'],
    migrate: ['postgres', 'redis', 'clickhouse'],
    grafana: ['prometheus'],
  };
  for (const [name, expected] of Object.entries(table)) assert.equal(reached(name), order(expected), name);
  for (const [name, { environment }] of ourServices(file)) {
    const text = JSON.stringify(environment);
    const used = { postgres: 'DATABASE_URL', redis: 'REDIS_URL', kafka: 'KAFKA_BROKERS', clickhouse: 'CLICKHOUSE_URL' };
    for (const server of servers) {
      // A backup is taken in a container of migrate, which then has Redis's address.
      const uses = text.includes(used[server as keyof typeof used]) || (name === 'migrate' && server === 'redis');
      assert.is(shares(name, server), uses, `${name}: ${server}`);
    }
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

test('probes and metrics have a port of their own, which is not published', () => {
  for (const [name, { environment, ports = [] }] of ourServices(file)) {
    if (name === 'migrate') continue;
    assert.is(environment!.OPS_PORT, 8090, name);
    for (const port of ports) assert.is.not(port.split(':').at(-1), '8090', name);
  }
});

test('each program accepts its environment and reads every variable in it', () => {
  assert.equal(environmentProblems(file, secrets), []);
});

test('any misspelt variable is found', () => {
  let tried = 0;
  for (const [name, { environment = {} }] of ourServices(file)) {
    for (const variable of Object.keys(environment)) {
      const mutant = structuredClone(file);
      const { [variable]: value = '', ...others } = mutant.services[name]!.environment!;
      mutant.services[name]!.environment = { ...others, [misspell(variable)]: value };
      const found = environmentProblems(mutant, secrets).some((problem) => problem.includes(misspell(variable)));
      assert.ok(found, `${name}: ${misspell(variable)}`);
      tried += 1;
    }
  }
  assert.ok(tried > 30);
});

test('the head of the file or docs/deploy.md explains every setting that the file takes from outside', () => {
  const explained = `${text.split('\nname:', 1)[0]}\n${read('docs/deploy.md')}`;
  const taken = new Set([...text.replaceAll('$$', '').matchAll(/\$\{?(\w+)/g)].map(([, name]) => name!));
  assert.ok(taken.size > 5);
  for (const name of taken) assert.match(explained, new RegExp(`\\b${name}\\b`));
});

test('a service can have several containers', () => {
  for (const [name, service] of services) assert.not.ok('container_name' in service || 'hostname' in service, name);
  const [, from, to, target] = /:(\d+)-(\d+):(\d+)$/.exec(interpolate(file.services.verify!.ports![0]!)) ?? [];
  assert.ok(Number(to) - Number(from) >= 3, 'a port on this machine for each of four');
  assert.is(target, String(file.services.verify!.environment!.PORT));
});

test('published ports and addresses are those on which programs and servers listen', () => {
  for (const [name, { environment, ports = [] }] of ourServices(file)) {
    for (const port of ports) assert.is(port.split(':').at(-1), String(environment!.PORT), name);
  }
  const listens = ourServices(file).flatMap(([, { environment }]) => environment?.PORT ?? []);
  assert.is(new Set(listens).size, listens.length);

  const [postgres, redis, clickhouse] = ['database_url', 'redis_api_url', 'clickhouse_api_url'].map(
    (one) => new URL(secrets[one]!),
  );
  const { POSTGRES_DB, POSTGRES_USER } = file.services.postgres!.environment!;
  assert.equal([postgres!.pathname, postgres!.username], [`/${POSTGRES_DB}`, POSTGRES_USER]);
  assert.equal([postgres!.host, redis!.host, clickhouse!.host], ['postgres:5432', 'redis:6379', 'clickhouse:8123']);
  assert.match(health('postgres'), `--port=5432 --username=${POSTGRES_USER} --dbname=${POSTGRES_DB}`);
  assert.match(read('deploy/redis.conf'), /^port 6379$/m);
  assert.match(health('redis'), '-p 6379');
  assert.match(health('clickhouse'), ':8123/ping');
  for (const url of ['clickhouse_url', 'clickhouse_api_url', 'clickhouse_consumer_url'])
    assert.match(read('deploy/clickhouse/users.xml'), `<${new URL(secrets[url]!).username}>`);

  const brokers = ourServices(file).flatMap(([, { environment }]) => environment?.KAFKA_BROKERS ?? []);
  assert.equal(new Set(brokers), new Set(['kafka:9092']));
  assert.match(read('deploy/kafka/server.properties'), /^advertised\.listeners=BROKER:\/\/kafka:9092,/m);
  assert.match(health('kafka'), '--bootstrap-server kafka:9092');
});

test('each server has the password of its address', () => {
  for (const [address, password] of [
    ['database_url', 'postgres_password'],
    ['api_database_url', 'api_database_password'],
    ['consumer_database_url', 'consumer_database_password'],
    ['webhooks_database_url', 'webhooks_database_password'],
    ['redis_api_url', 'redis_api_password'],
    ['redis_verify_url', 'redis_verify_password'],
    ['redis_consumer_url', 'redis_consumer_password'],
    ['redis_relay_url', 'redis_relay_password'],
    ['clickhouse_url', 'clickhouse_password'],
    ['clickhouse_api_url', 'clickhouse_api_password'],
    ['clickhouse_consumer_url', 'clickhouse_consumer_password'],
  ]) {
    assert.is(new URL(secrets[address!]!).password, secrets[password!]);
  }
});

test('no two users of a server have one password, and no program has that of an owner', () => {
  const passwords = Object.entries(secrets).filter(([name]) => name.endsWith('_password'));
  assert.is(new Set(passwords.map(([, password]) => password)).size, passwords.length);
  const owners = ['database_url', 'clickhouse_url', 'postgres_password', 'redis_password', 'clickhouse_password'];
  for (const [name, service] of ourServices(file)) {
    const has = (service.secrets ?? []).filter((one) => owners.includes(one));
    assert.equal(has, name === 'migrate' ? ['database_url', 'clickhouse_url'] : [], name);
  }
  const environments = JSON.stringify(file.services.clickhouse!.command);
  for (const [, variable] of read('deploy/clickhouse/users.xml').matchAll(/from_env="(\w+)"/g))
    assert.match(environments, `${variable}=`);
});

test('the documented backup of ClickHouse logs in as the owner of the schema, by a secret that its container has', () => {
  const commands = read('docs/backup-restore.md').match(/^docker compose exec .*clickhouse-client .*$/gm) ?? [];
  assert.is(commands.length, 1);
  const [, user, secret] =
    /CLICKHOUSE_USER=(\w+) CLICKHOUSE_PASSWORD=\$\(cat \/run\/secrets\/(\w+)\)/.exec(commands[0]!) ?? [];
  const users = read('deploy/clickhouse/users.xml');
  const [, owner] = new RegExp(`<${user}>([^]*?)</${user}>`).exec(users) ?? [];
  // A user without grants may do everything.
  assert.ok(owner && !owner.includes('<grants>'), user);
  const [, variable] = /<password from_env="(\w+)"\/>/.exec(owner) ?? [];
  const { command, secrets: mounted } = file.services.clickhouse!;
  assert.ok(interpolate(command!.join(' ')).includes(`${variable}="$(cat /run/secrets/${secret})"`));
  assert.ok(mounted!.includes(secret!));
});

test('volumes, secrets and mounted files are declared, exist, and are used', () => {
  const mounts = services.flatMap(([, { volumes = [] }]) => volumes.map((volume) => volume.split(':')[0]!));
  const named = mounts.filter((source) => !source.startsWith('.'));
  assert.equal(named.toSorted(), Object.keys(file.volumes).toSorted());
  for (const source of mounts.filter((one) => one.startsWith('.')))
    assert.ok(existsSync(join(checkout, source)), source);

  const used = new Set(services.flatMap(([, service]) => service.secrets ?? []));
  assert.equal([...used].toSorted(), Object.keys(file.secrets).toSorted());
  for (const [name, secret] of Object.entries(file.secrets)) assert.is(secret.file, `./secrets/${name}`);
  assert.equal(Object.keys(secrets).toSorted(), Object.keys(file.secrets).toSorted(), 'make up makes each of them');
  for (const [name, service] of services) {
    const mentioned = [...JSON.stringify(service).matchAll(/\/run\/secrets\/(\w+)/g)].map(([, one]) => one!);
    assert.equal(new Set(mentioned), new Set(service.secrets ?? []), `${name} has the secrets that it reads`);
  }
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

test('where cores are scarce verify and Redis get several times those of any other container', () => {
  const shares = services.map(([name, { cpu_shares = 1_024 }]) => [name, cpu_shares] as const);
  const first = shares.filter(([, share]) => Number(share) >= 3 * 1_024).map(([name]) => name);
  assert.equal(first.toSorted(), ['redis', 'verify']);
  for (const [name, share] of shares) assert.ok(first.includes(name) || share === 1_024, name);
});

test('a container has more time to stop than its program takes', () => {
  const [, drain = ''] = /STOP_WITHIN_MS = ([\d_]+)/.exec(read('shared/runtime/run.ts')) ?? [];
  for (const [name, service] of services) {
    const seconds = Number(/^(\d+)s$/.exec(String(service.stop_grace_period))?.[1]);
    assert.ok(seconds * 1_000 >= Number(drain.replaceAll('_', '')) + 2_000, name);
  }
});

test('services that need the schemas start after the job that brings them up to date', () => {
  for (const [name, { depends_on: before = {}, environment }] of ourServices(file)) {
    if (name === 'migrate' || !environment?.DATABASE_URL_FILE) continue;
    assert.equal(before.migrate, { condition: 'service_completed_successfully' }, name);
  }
  for (const [name, { depends_on: before = {}, healthcheck }] of services) {
    assert.is(healthcheck?.disable === true, name === 'migrate');
    for (const [other, { condition }] of Object.entries(before)) {
      assert.is(
        condition,
        other === 'migrate' ? 'service_completed_successfully' : 'service_healthy',
        `${name}: ${other}`,
      );
    }
  }
});

test('the health command of our programs succeeds only while /readyz does', async () => {
  let status = 200;
  const paths: string[] = [];
  const server = createServer(({ url }, response) => {
    paths.push(url ?? '');
    response.writeHead(status).end('{}');
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const port = String((server.address() as AddressInfo).port);
  const isWell = () =>
    Promise.all(
      ourServices(file)
        .filter(([name]) => name !== 'migrate')
        .map(([, service]) => runsWell(healthCommand(service), { OPS_PORT: port })),
    );
  await eventually('all five are well', async () => (await isWell()).filter(Boolean).length === 5);
  status = 503;
  assert.equal(await isWell(), [false, false, false, false, false]);
  assert.equal(new Set(paths), new Set(['/readyz']));
  server.close();
  server.closeAllConnections();
  assert.equal(await isWell(), [false, false, false, false, false]);
});

// Where Compose is installed, it must accept the file too.
if (await runsWell(['docker', 'compose', 'version'])) {
  test('Compose reads the file', () => {
    execFileSync('docker', ['compose', '--profile', 'monitoring', 'config', '--quiet'], { cwd: checkout });
  });
}

test.run();

/** Names of services in the order of the file. */
function order(names: string[]): string[] {
  return services.flatMap(([name]) => (names.includes(name) ? [name] : []));
}

function read(path: string): string {
  return readFileSync(join(checkout, path), 'utf8');
}

function health(name: string): string {
  return interpolate(healthCommand(file.services[name]!).join(' '));
}

function healthCommand(service: Service): string[] {
  const [kind, ...command] = service.healthcheck?.test ?? [];
  assert.ok(kind === 'CMD' || kind === 'CMD-SHELL');
  return command.map(interpolate);
}

/** Swaps the first two neighbouring letters that differ. */
function misspell(name: string): string {
  const at = name.split('').findIndex((letter, i) => i > 0 && letter !== name[i - 1]);
  return name.slice(0, at - 1) + name[at]! + name[at - 1]! + name.slice(at + 1);
}

async function runsWell([command = '', ...args]: string[], env: NodeJS.ProcessEnv = {}): Promise<boolean> {
  const program = command === 'node' ? process.execPath : command;
  return promisify(execFile)(program, args, { env: { ...process.env, ...env }, cwd: checkout }).then(
    () => true,
    () => false,
  );
}
