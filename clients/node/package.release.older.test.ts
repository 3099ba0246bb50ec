// The packed package on every Node that it is for, loaded in each way, and with types resolved as TypeScript 5 still can.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, type Customers } from '../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../tests/helpers/world.ts';
import { installPackage, nodes, project, run, strict, write } from './helpers/project.ts';

let world: World;
let customers: Customers;

const test = suite('the package on older Node and TypeScript');
test.before(async () => {
  world = await makeWorld(['verify']);
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  customers = makeCustomers(world, workspace.id);
  installPackage();
});
test.after(() => world?.stop());

test('Node 20, 22 and 26 are tried, and the oldest one that the package is for', () => {
  const versions = [...nodes().keys()];
  for (const major of [20, 22, 26])
    assert.ok(
      versions.some((version) => Number.parseInt(version, 10) === major),
      `${major}`,
    );
  // It has no way to load node:http at once: the client sends by fetch there.
  assert.ok(
    versions.some((version) => /^20\.[3-9]\./.test(version)),
    versions.join(),
  );
});

for (const [version, node] of nodes()) {
  test(`works in JavaScript on Node ${version}`, async () => {
    const { key } = await customers.newKey();
    write(
      'main.js',
      `import { each, keytally } from '@keytally/client';
       const client = keytally({ url: '${world.api.url}', token: '${world.team.token}', verifyTimeoutMs: 20_000 });
       const names = [];
       for await (const { name } of each(client.workspaces.list)) names.push(name);
       console.log(names.join(), (await client.verify({ key: '${key}' })).status);`,
    );
    assert.is(run([node, 'main.js'], project), 'w VALID\n');
  });

  test(`works by require on Node ${version}, and is the same package by import`, async () => {
    const { key } = await customers.newKey();
    write(
      'main.cjs',
      `const assert = require('node:assert');
       const required = require('@keytally/client');
       const { keytally, identityOf, nodeGuard } = required;
       const client = keytally({ url: '${world.verify!.url}', token: '${world.team.token}', verifyTimeoutMs: 20_000 });
       const calls = Array.from({ length: 64 }, () => client.verify({ key: '${key}' }));
       Promise.all(calls).then(async (answers) => {
         assert.ok(answers.every(({ status }) => status === 'VALID'));
         const imported = await import('@keytally/client');
         assert.equal(imported.KeytallyError, required.KeytallyError);
         const request = { method: 'GET', url: '/', headers: { 'x-api-key': '${key}' }, socket: {} };
         await new Promise((next) => nodeGuard(client)(request, {}, next));
         console.log(imported.identityOf(request).status);
       });`,
    );
    assert.is(run([node, 'main.cjs'], project), 'VALID\n');
  });

  test(`works on fetch alone, without anything of Node ${version}'s own`, async () => {
    const { key } = await customers.newKey();
    // As other runtimes and bundlers find it.
    write(
      'fetch.js',
      `process.getBuiltinModule = undefined;
       const { keytally } = await import('./node_modules/@keytally/client/dist/index.js');
       const client = keytally({ url: '${world.verify!.url}', token: '${world.team.token}', verifyTimeoutMs: 20_000 });
       const answers = await Promise.all(Array.from({ length: 64 }, () => client.verify({ key: '${key}' })));
       console.log([...new Set(answers.map(({ status }) => status))].join());`,
    );
    assert.is(run([node, 'fetch.js'], project), 'VALID\n');
  });
}

test('works in strict TypeScript 5 that resolves as node10 does', async () => {
  const { key } = await customers.newKey();
  write(
    'node10.ts',
    `import { keysOf, keytally, nodeGuard, type Verification } from '@keytally/client';
     const client = keytally({ url: '${world.verify!.url}', token: '${world.team.token}', verifyTimeoutMs: 20_000 });
     nodeGuard(client, { cost: (request) => request.url ?? '1' });
     // @ts-expect-error -- no such field
     nodeGuard(client, { cost: (request) => request.nothing });
     // @ts-expect-error -- a number is no key
     const wrong = () => client.verify({ key: 1 });
     void client.verify({ key: '${key}' }).then((answer: Verification) => console.log(answer.status, keysOf((name) => (name === 'x-api-key' ? 'a' : null)), typeof wrong));`,
  );
  const tsc = [process.execPath, process.env.TEST_OLDER_TSC!];
  run([...tsc, ...strict('node10'), '--outDir', 'node10', 'node10.ts'], project);
  write('node10/package.json', '{ "type": "commonjs" }');
  assert.is(run([process.execPath, 'node10/node10.js'], project), "VALID [ 'a' ] function\n");
});

test.run();
