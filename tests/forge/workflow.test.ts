// The workflow of a forge's CI runs what .ci/run runs, with actions that nobody can exchange.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { checkout } from '../../apps/stack/process/home.ts';

type Job = { 'timeout-minutes'?: number; steps: { uses?: string; run?: string }[] };

const { jobs, permissions } = parse(readFileSync(join(checkout, '.github/workflows/ci.yml'), 'utf8')) as {
  jobs: Record<string, Job>;
  permissions: Record<string, string>;
};
const steps = Object.values(jobs).flatMap((job) => job.steps);

test('the workflow runs .ci/run, builds the image, lets Compose read its file, and makes a release again from its tag', () => {
  const commands = steps.map(({ run = '' }) => run);
  assert.ok(commands.includes('bash .ci/run'));
  assert.ok(commands.some((command) => command.startsWith('docker build ')));
  assert.ok(commands.some((command) => command.includes('docker compose --profile monitoring config --quiet')));
  const target = commands.find((command) => command.startsWith('make release'))!.split(' ')[1]!;
  assert.match(readFileSync(join(checkout, 'Makefile'), 'utf8'), new RegExp(`^${target}: `, 'm'));
});

test('it may only read, has an end, and names actions by their commit', () => {
  assert.equal(permissions, { contents: 'read' });
  for (const [name, job] of Object.entries(jobs)) assert.ok(job['timeout-minutes'], name);
  const actions = steps.flatMap(({ uses }) => uses ?? []);
  assert.ok(actions.length > 0);
  for (const action of actions) assert.match(action, /^[\w-]+\/[\w-]+@[0-9a-f]{40}$/);
});
