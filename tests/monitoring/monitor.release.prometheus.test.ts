// `make monitor`: Prometheus beside the stack of one machine.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from '../../apps/stack/process/home.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { eventually } from '../helpers/eventually.ts';
import { makeOwnStack } from '../helpers/own-stack.ts';
import { readRules } from './helpers/rules.ts';

const stack = await makeOwnStack(process.env.TEST_FOLDER ?? '');

type Targets = { data: { activeTargets: { labels: { job: string }; health: string }[] } };
type Rules = { data: { groups: { rules: { name: string }[] }[] } };

test('monitor asks every program of the stack, runs all rules, and ends when told', async () => {
  assert.match((await stack.run('monitor')).err, /^keytally: no stack runs in .*: start it with make up\n$/);
  await stack.must('up');
  const [port = 0] = await freePorts(1);
  const { child, ended, printed } = monitor(port);
  const ask = async <T>(path: string) =>
    (await fetch(`http://127.0.0.1:${port}/api/v1/${path}`).then((answer) => answer.json())) as T;
  try {
    await eventually('Prometheus says where it is', async () =>
      printed().includes(`Prometheus on http://127.0.0.1:${port} `),
    );
    await eventually('each is asked', async () => {
      const { activeTargets } = (await ask<Targets>('targets')).data;
      const up = activeTargets.filter(({ health }) => health === 'up').map(({ labels }) => labels.job);
      return ['api', 'consumer', 'verify'].every((one) => up.includes(one));
    });
    const { groups } = (await ask<Rules>('rules')).data;
    const { alerts, recordings } = readRules();
    assert.equal(
      groups.flatMap(({ rules }) => rules.map(({ name }) => name)).toSorted(),
      [...alerts.map(({ alert }) => alert), ...recordings.map(({ record }) => record)].toSorted(),
    );
  } finally {
    child.kill('SIGTERM');
  }
  assert.equal(await ended, [0, null]);
  assert.throws(() => process.kill(child.pid!, 0));
});

function monitor(port: number) {
  const child = spawn(process.execPath, ['apps/stack/main.ts', 'monitor'], {
    cwd: checkout,
    env: { ...process.env, KEYTALLY_HOME: stack.home, PROMETHEUS_PORT: String(port) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (more: string) => (out += more));
  return { child, ended: once(child, 'exit'), printed: () => out };
}
