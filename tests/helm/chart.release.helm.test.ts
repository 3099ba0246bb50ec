// The chart, by Helm itself, against the schemas of Kubernetes, the programs' own configuration and the files of Compose.
import { mkdirSync } from 'node:fs';
import { BlockList, isIPv6 } from 'node:net';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { readText } from '../helpers/read-text.ts';
import {
  environmentProblems,
  ourServices,
  readComposeFile,
  type ComposeFile,
} from '../compose/helpers/compose-file.ts';
import { makeSecrets } from '../compose/helpers/secrets.ts';
import { isPublicAddress } from '../../shared/values/webhook-target.ts';
import { exampleFile, examples, helm, podsOf, render, type Manifest, type Rule } from './helpers/chart.ts';
import { kubernetes } from './helpers/kubernetes.ts';

const folder = process.env.TEST_FOLDER ?? '';
const compose = readComposeFile();
const servers = ['postgres', 'redis', 'clickhouse', 'kafka'];
const rendered = new Map<string, Manifest[]>();
mkdirSync(folder, { recursive: true });
const secrets = makeSecrets(join(folder, 'checkout'));
for (const name of examples) rendered.set(name, await render(name));

test('Helm finds nothing wrong with the chart, for any example', async () => {
  assert.is(examples.length, 6);
  for (const name of examples) {
    const { code, out, err } = await helm('lint', '--strict', '--quiet', '--values', exampleFile(name));
    assert.equal([code, out.trim(), err.trim()], [0, '', ''], name);
  }
});

test('every manifest fits the schemas of the oldest and the newest Kubernetes, and a misspelt one does not', () => {
  const { kubeVersion } = parse(readText('deploy/helm/Chart.yaml')) as { kubeVersion: string };
  for (const version of [/1\.\d+/.exec(kubeVersion)![0], '1.37']) {
    const { problems } = kubernetes(version);
    const all = [...rendered.values()].flat();
    assert.ok(all.length > 100);
    assert.equal(all.flatMap(problems), [], version);
    const misspelt = JSON.parse(JSON.stringify(all).replaceAll('"containerPort"', '"containerport"')) as Manifest[];
    assert.ok(misspelt.flatMap(problems).length > 10);
  }
});

test('each program accepts its environment, reads every variable in it, and mounts only the secrets that it reads', () => {
  for (const [name, manifests] of rendered) {
    const file = asCompose(manifests);
    assert.ok(Object.keys(file.services).length >= 4, name);
    assert.equal(environmentProblems(file, { ...secrets, vault_token: 'hvs.x', otlp_headers: 'a=b' }), [], name);
    for (const [program, { environment = {}, secrets: mounted }] of Object.entries(file.services)) {
      const read = Object.values(environment).flatMap(
        (value) => /^\/run\/secrets\/(\w+)$/.exec(String(value))?.[1] ?? [],
      );
      assert.equal(mounted?.toSorted(), read.toSorted(), `${name}: ${program}`);
    }
  }
});

test('while the master key is changed, api and webhooks also read the other one, from the Secret or by its command', async () => {
  const previous = (manifests: Manifest[]) =>
    [...podsOf(manifests)].flatMap(([name, { containers, volumes }]) => {
      const given = containers[0]!.env!.filter((one) => one.name.startsWith('MASTER_KEY_PREVIOUS'));
      const keys = volumes.flatMap(({ secret }) => secret?.items?.map(({ key }) => key) ?? []);
      return given.map(({ name: variable, value }) => [name, variable, value, keys.includes('master_key_previous')]);
    });
  const both = (...given: unknown[]) => ['api', 'webhooks'].map((program) => [program, ...given]);
  assert.equal(previous(rendered.get('medium')!), []);
  assert.equal(
    previous(await render('medium', '--set', 'masterKey.previous=true')),
    both('MASTER_KEY_PREVIOUS_FILE', '/run/secrets/keytally/master_key_previous', true),
  );
  assert.equal(
    previous(await render('vault', '--set', 'masterKey.previousCommand=print it')),
    both('MASTER_KEY_PREVIOUS_COMMAND', 'print it', false),
  );
});

test('the programs are those of Compose, with its commands, users, ports, secrets and servers', () => {
  const file = asCompose(rendered.get('trial-kafka')!);
  const ofCompose = ourServices(compose);
  assert.equal(Object.keys(file.services).toSorted(), ofCompose.map(([name]) => name).toSorted());
  for (const [name, { command, user, environment, secrets: read }] of ofCompose) {
    const ours = file.services[name]!;
    assert.equal([ours.command, ours.user, ours.secrets?.toSorted()], [command, user, read?.toSorted()], name);
    for (const variable of ['PORT', 'OPS_PORT', 'KAFKA_BROKERS', 'KAFKA_SASL_USERNAME'])
      assert.is(String(ours.environment?.[variable]), String(environment?.[variable]), `${name}: ${variable}`);
    if (name === 'migrate') continue;
    // What a Service reaches leaves it only when it can serve nobody.
    const { readinessProbe } = podsOf(rendered.get('trial-kafka')!).get(name)!.containers[0]!;
    assert.is(readinessProbe?.httpGet?.path, ['api', 'verify'].includes(name) ? '/servingz' : '/readyz', name);
  }
});

test('no container has root, rights, a writable file system, a token of the cluster or memory without a limit; secrets come from the Secret by its name', () => {
  for (const [name, manifests] of rendered) {
    const made = manifests.some(({ kind }) => kind === 'Secret');
    assert.not.ok(made, name);
    const known = name === 'vault' ? ['keytally-production', 'keytally-tls'] : ['keytally'];
    for (const [program, pod] of podsOf(manifests)) {
      const where = `${name}: ${program}`;
      for (const { secret } of pod.volumes) assert.ok(!secret || known.includes(secret.secretName), where);
      assert.ok(pod.securityContext.runAsNonRoot && pod.securityContext.runAsUser > 0, where);
      assert.is(pod.automountServiceAccountToken, false, where);
      for (const { securityContext, resources, volumeMounts } of pod.containers) {
        const capabilities = { drop: ['ALL'] };
        const closed = { readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities };
        assert.equal(securityContext, closed, where);
        assert.ok(resources.limits.memory && resources.requests.cpu, where);
        for (const mount of volumeMounts)
          assert.ok(mount.readOnly || ['tmp', 'data', 'run', 'shm'].includes(mount.name), where);
      }
    }
  }
});

test('each pod reaches the servers that its program uses and no others: verify reaches Redis alone', () => {
  const uses = { postgres: 'DATABASE_URL', redis: 'REDIS_URL', clickhouse: 'CLICKHOUSE_URL', kafka: 'KAFKA_BROKERS' };
  for (const name of ['trial', 'trial-kafka']) {
    const manifests = rendered.get(name)!;
    const policies = new Map(
      manifests
        .filter(({ kind }) => kind === 'NetworkPolicy')
        .map((one) => [component(one.spec.podSelector!), one.spec]),
    );
    const pods = podsOf(manifests);
    assert.equal([...policies.keys()].toSorted(), [...pods.keys()].toSorted(), 'each pod has its policy');
    for (const [program, { containers }] of pods) {
      if (servers.includes(program)) continue;
      const text = JSON.stringify(containers[0]!.env);
      const used = servers.filter((server) => text.includes(uses[server as keyof typeof uses]));
      const egress = policies.get(program)!.egress!;
      const reached = egress.flatMap(({ to = [] }) =>
        to.flatMap((peer) => (peer.podSelector ? [component(peer.podSelector)] : [])),
      );
      assert.equal(reached.toSorted(), used.toSorted(), program);
      const named = egress.every(({ to }) => to && to.length > 0);
      assert.ok(named, `${program} reaches no address without a name`);
      for (const server of used) {
        const from = policies
          .get(server)!
          .ingress!.flatMap((rule) => rule.from!.map((peer) => component(peer.podSelector!)));
        assert.ok(from.includes(program), `${server} lets ${program} in`);
      }
      if (program === 'verify') assert.equal(used, ['redis']);
    }
    for (const server of servers.filter((one) => one !== 'kafka' && policies.has(one)))
      assert.equal(policies.get(server)!.egress, [], server);
  }
  const medium = rendered.get('medium')!.filter(({ kind }) => kind === 'NetworkPolicy');
  const ofVerify = medium.find(({ spec }) => component(spec.podSelector!) === 'verify')!;
  assert.equal(blocks(ofVerify.spec.egress!), ['10.1.0.20/32']);
});

test('webhooks alone calls outside: public addresses, none that it refuses itself, and the receivers that the operator names', async () => {
  const closed = await render('medium', '--set-json', 'networkPolicy.outside=[]');
  const manifests = rendered.get('medium')!;
  const inside = ['10.1.0.10/32', '10.1.0.20/32', '10.1.0.30/32'];
  for (const name of ['trial-kafka', 'medium'])
    for (const [program, egress] of egressOf(rendered.get(name)!)) {
      const beyond = blocks(egress).filter((cidr) => !inside.includes(cidr));
      if (program !== 'webhooks') assert.equal(beyond, [], `${name}: ${program}`);
    }

  const outside = egressOf(rendered.get('trial')!).get('webhooks')!;
  const open = '1.1.1.1 100.63.255.255 172.32.0.1 192.169.0.1 223.255.255.255 2606:4700::1111';
  const closed4 =
    '0.1.2.3 10.1.2.3 100.64.0.1 127.0.0.1 168.63.129.16 169.254.169.254 172.31.255.255 192.0.0.192 192.0.2.1 ' +
    '192.88.99.1 192.168.0.1 198.19.0.1 198.51.100.1 203.0.113.1 224.0.0.1 255.255.255.255';
  const closed6 = '::1 ::ffff:10.0.0.1 64:ff9b::a00:1 2001::1 2001:db8::1 2002:a00:1:: fd00:ec2::254 fe80::1 ff02::1';
  for (const address of `${open} ${closed4} ${closed6}`.split(' ')) {
    assert.is(isPublicAddress(address), open.split(' ').includes(address), address);
    assert.is(reaches(outside, address), isPublicAddress(address), address);
  }

  const receivers = egressOf(closed).get('webhooks')!.slice(2);
  assert.equal(receivers, [{ ports: [{ protocol: 'TCP', port: 8443 }], to: [{ ipBlock: { cidr: '10.1.0.50/32' } }] }]);
  for (const [program, { containers }] of podsOf(manifests)) {
    const given = containers[0]!.env!.find(({ name }) => name === 'WEBHOOK_ALLOWED_TARGETS')?.value;
    assert.is(given, ['api', 'webhooks'].includes(program) ? '*=receiver.internal:8443' : undefined, program);
  }
});

test('a value that does not exist, and a variable that the program does not read, are refused by their name', async () => {
  for (const [setting, message] of [
    ['verify.replica=3', /replica/],
    ['verify.config.LOG_LEVLE=info', /LOG_LEVLE/],
    ['verify.config.DATABASE_URL=postgres://x', /DATABASE_URL/],
    ['bus=nats', /bus/],
    ['api.config.WEBHOOK_ALLOWED_TARGETS=a:1', /WEBHOOK_ALLOWED_TARGETS/],
    ['webhooks.inside.targets[0]=receiver', /targets/],
    ['image.digest=latest', /digest/],
    ['verify.config.OTEL_TRACES_SAMPLER=always_on', /OTEL_TRACES_SAMPLER/],
    ['telemetry.config.OTEL_TRACES_SAMPLR=always_on', /OTEL_TRACES_SAMPLR/],
    ['servers.kafka.brokers=null', /bus: kafka needs servers\.kafka\.brokers/],
  ] as const) {
    const { code, err } = await helm('template', '--values', exampleFile('medium'), '--set', setting);
    assert.is(code, 1, setting);
    assert.match(err, message);
  }
});

/** The programs of an example in the form of Compose, whose checks then read it. */
function asCompose(manifests: Manifest[]): ComposeFile {
  const services = [...podsOf(manifests)].flatMap(([name, pod]) => {
    if (servers.includes(name)) return [];
    const [container] = pod.containers;
    const environment = (container!.env ?? []).map(({ name: variable, value, valueFrom }) => {
      assert.is(valueFrom?.fieldRef.fieldPath ?? 'metadata.name', 'metadata.name');
      const text = value?.replace('/run/secrets/keytally/', '/run/secrets/') ?? 'keytally-consumer-x';
      // Compose's checks know files; a command is one more way, which its own test proves.
      return variable === 'MASTER_KEY_COMMAND' ? ['MASTER_KEY', secrets.master_key!] : [variable, text];
    });
    const ofVault = /^(VAULT_|MASTER_KEY_CIPHERTEXT$)/;
    const items = pod.volumes.flatMap(({ secret }) => secret?.items?.map(({ key }) => key) ?? []);
    const names = environment.map(([variable]) => variable!);
    assert.is(new Set(names).size, names.length, `${name} sets a variable twice`);
    return [
      [
        name,
        {
          build: '.',
          command: container!.command!,
          user: `${pod.securityContext.runAsUser}:${pod.securityContext.runAsUser}`,
          environment: Object.fromEntries(environment.filter(([variable]) => !ofVault.test(variable!))),
          secrets: items.filter((key) => key !== 'vault_token'),
        },
      ] as const,
    ];
  });
  return { services: Object.fromEntries(services), networks: {}, volumes: {}, secrets: {} };
}

function component({ matchLabels }: { matchLabels: Record<string, string> }): string {
  return matchLabels['app.kubernetes.io/component'] ?? '';
}

function blocks(rules: Rule[]): string[] {
  return rules.flatMap(({ to = [] }) => to.flatMap(({ ipBlock }) => (ipBlock ? [ipBlock.cidr] : [])));
}

function egressOf(manifests: Manifest[]): Map<string, Rule[]> {
  const policies = manifests.filter(({ kind }) => kind === 'NetworkPolicy');
  return new Map(policies.map(({ spec }) => [component(spec.podSelector!), spec.egress!]));
}

function reaches(rules: Rule[], address: string): boolean {
  const isIn = (blocks: string[]): boolean =>
    blocks.some((block) => {
      const [base = '', prefix] = block.split('/');
      if (isIPv6(base) !== isIPv6(address)) return false;
      const list = new BlockList();
      list.addSubnet(base, Number(prefix), isIPv6(base) ? 'ipv6' : 'ipv4');
      return list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
    });
  const peers = rules.filter(({ ports }) => ports.some(({ port }) => !port)).flatMap(({ to = [] }) => to);
  return peers.some(({ ipBlock }) => ipBlock && isIn([ipBlock.cidr]) && !isIn(ipBlock.except ?? []));
}
