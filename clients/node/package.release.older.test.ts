// The packed package on every Node that it is for, loaded in each way, and with types resolved as TypeScript 5 still can.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, newWorkspace, spawnWorld } from '../../tests/helpers/world.ts';
import { installPackage, nodes, project, run, strict, write } from './helpers/project.ts';

// Commands run while this process waits, so keytally needs processes of its own.

const world = await spawnWorld(['verify']);
const customers = makeCustomers(world, await newWorkspace(world));
installPackage();

test('Node 20, 22 and 26 are tried, and the oldest one that the package is for', () => {
  const versions = [...nodes().keys()];
  // The oldest has no way to load node:http at once: the client sends by fetch there.
  for (const wanted of [/^20\./, /^22\./, /^26\./, /^20\.[3-9]\./])
    assert.ok(
      versions.some((version) => wanted.test(version)),
      `${wanted} in ${versions.join()}`,
    );
});

for (const [version, node] of nodes()) {
  test(`works on Node ${version}: by import, by require as the same package, and on fetch alone`, async () => {
    const { key } = await customers.newKey();
    const options = `{ url: '${world.verify!.url}', token: '${world.team.token}', verifyTimeoutMs: 20_000 }`;
    const verified = `const verified = async (client) => {
         const answers = await Promise.all(Array.from({ length: 64 }, () => client.verify({ key: '${key}' })));
         console.log([...new Set(answers.map(({ status }) => status))].join());
       };`;
    write('main.js', `import { keytally } from '@keytally/client'; ${verified} await verified(keytally(${options}));`);
    write(
      'main.cjs',
      `const assert = require('node:assert');
       const required = require('@keytally/client');
       const { keytally, identityOf, nodeGuard } = required;
       ${verified}
       const client = keytally(${options});
       verified(client).then(async () => {
         const imported = await import('@keytally/client');
         assert.equal(imported.KeytallyError, required.KeytallyError);
         const request = { method: 'GET', url: '/', headers: { 'x-api-key': '${key}' }, socket: {} };
         await new Promise((next) => nodeGuard(client)(request, {}, next));
         assert.equal(imported.identityOf(request).status, 'VALID');
       });`,
    );
    // As other runtimes and bundlers find it.
    write(
      'fetch.js',
      `process.getBuiltinModule = undefined;
       const { keytally } = await import('./node_modules/@keytally/client/dist/index.js');
       ${verified}
       await verified(keytally(${options}));`,
    );
    for (const file of ['main.js', 'main.cjs', 'fetch.js']) assert.is(run([node, file], project), 'VALID\n', file);
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
