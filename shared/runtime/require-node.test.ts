import { globSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { nodeProblem } from './require-node.ts';

const root = resolve(import.meta.dirname, '../..');

test('a Node that is too old is told which one is needed and how to get it', () => {
  const hint = 'npm run and make use the one in node_modules (npm run api, npm run verify, make up)';
  assert.is(nodeProblem('v24.1.0', true), `keytally needs Node 26 or newer, this is v24.1.0: ${hint}`);
  assert.match(nodeProblem('v22.18.0', false)!, /26 or newer, this is v22\.18\.0: install Node 26 or newer$/);
  for (const version of ['v26.0.0', 'v26.10.0', 'v30.1.2']) assert.is(nodeProblem(version, true), undefined);
});

test('the Node that is asked for is the one of package.json', () => {
  const { engines } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as { engines: { node: string } };
  assert.is(engines.node, '>=26');
});

test('every program and command checks its Node before it imports anything else', () => {
  const commands = 'apps/api/commands/{migrate,rebuild,reconcile,restored,revoke-team,token}.ts';
  const files = globSync(['apps/*/main.ts', commands], { cwd: root });
  assert.ok(files.length >= 10);
  for (const file of files) {
    const [, first = ''] = /^import (?:.* from )?'(.*)';$/m.exec(readFileSync(resolve(root, file), 'utf8')) ?? [];
    assert.is(resolve(root, dirname(file), first), resolve(import.meta.dirname, 'require-node.ts'), file);
  }
});
