// The package as its users get it: packed, installed into an empty project, used in TypeScript and in JavaScript.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { makeCustomers, newWorkspace, spawnWorld } from '../../tests/helpers/world.ts';
import { assertProtected, whileServed } from '../helpers/protected.ts';
import {
  blocksOf,
  exampleFor,
  installPackage,
  link,
  project,
  resolutions,
  run,
  strict,
  tsc,
  write,
} from './helpers/project.ts';

const pages = ['README.md', 'docs/protect-node.md', 'clients/node/README.md'];

// Commands run while this process waits, so keytally needs processes of its own.

const world = await spawnWorld(['verify']);
const customers = makeCustomers(world, await newWorkspace(world));

test('the package holds only what its users need, and brings no other package', () => {
  const { source, files } = installPackage();
  const paths = files.map(({ path }) => path);
  const others = paths.filter((path) => !/^dist\/(cjs\/)?[a-z-]+\.(js|d\.ts)$/.test(path));
  assert.equal(others.toSorted(), ['README.md', 'dist/cjs/package.json', 'package.json']);
  // All that TypeScript reads of a package when it resolves as node10 does, and Node before it knew `exports`.
  const { main, types } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8')) as Record<string, string>;
  for (const path of [main, types]) assert.ok(paths.includes(path!.replace('./', '')), path);
  assert.not(paths.some((path) => path.includes('test')));
  const installed = readdirSync(join(project, 'node_modules')).filter((name) => !name.startsWith('.'));
  assert.equal([installed, readdirSync(join(project, 'node_modules/@keytally'))], [['@keytally'], ['client']]);
});

test('works in TypeScript, which knows inputs and answers, also as CommonJS', async () => {
  const { key } = await customers.newKey();
  const text = `import { keytally, KeytallyError, type Verification } from '@keytally/client';
     const client = keytally({ url: '${world.api.url}', token: '${world.team.token}', verifyTimeoutMs: 20_000 });
     async function use() {
       const answer: Verification = await client.verify({ key: '${key}', billing: { usage: '1' } });
       // @ts-expect-error -- a number is no name
       const error = await client.workspaces.create({ name: 1 }).catch((error: KeytallyError) => error);
       // @ts-expect-error -- there is no such field
       if (false) await client.apiKeys.create({ name: 'k', workspaceId: 'w', enabeld: true });
       // @ts-expect-error -- an id must be given
       if (false) await client.apiKeys.list();
       console.log(answer.status, error instanceof KeytallyError && error.code);
     }
     void use();`;
  write('typed.ts', text);
  write('required.cts', text);
  for (const resolution of resolutions) {
    const files = resolution === 'nodenext' ? ['typed.ts', 'required.cts'] : ['typed.ts'];
    run([tsc, ...strict(resolution), '--types', '', ...files], project);
    assert.is(run([process.execPath, 'typed.js'], project), 'VALID 40001\n');
  }
  assert.is(run([process.execPath, 'required.cjs'], project), 'VALID 40001\n');
});

test('the types work where no framework is installed, and are not any', () => {
  write(
    'alone.ts',
    `import { fastifyGuard, honoGuard, koaGuard, nodeGuard, keytally } from '@keytally/client';
     const client = keytally({ url: undefined, token: undefined });
     nodeGuard(client, { cost: (request) => request.url ?? '1' });
     koaGuard(client, { cost: (ctx) => ctx.url });
     // @ts-expect-error -- no such field
     fastifyGuard(client, { cost: (request) => request.nothing });
     // @ts-expect-error -- no such field
     honoGuard(client, { cost: (c) => c.nothing });`,
  );
  for (const resolution of resolutions)
    run([tsc, ...strict(resolution), '--noEmit', '--types', '', 'alone.ts'], project);
});

test('every example of the pages passes strict tsc, without an annotation for the request', () => {
  const packages = 'express fastify hono @hono/node-server koa @types/node @types/express @types/koa'.split(' ');
  for (const name of packages) link(name);
  const examples = pages.flatMap((page) => ['js', 'ts'].flatMap((language) => blocksOf(page, language)));
  assert.ok(examples.length >= 10, `${examples.length} examples`);
  const files = examples.map((text, i) => write(`example-${i}.ts`, text));
  write(
    'framework-types.ts',
    `import express from 'express';
     import fastify from 'fastify';
     import { Hono } from 'hono';
     import Koa from 'koa';
     import { fastifyGuard, honoGuard, keytally, koaGuard, nodeGuard } from '@keytally/client';
     const client = keytally({ url: 'http://a', token: 'x' });
     express().use('/v1', nodeGuard(client, { cost: (request) => request.baseUrl, scopes: () => [] }));
     express().get('/a', nodeGuard(client, { cost: (request) => request.get('x') ?? '1' }), (_, response) => void response.end());
     fastify().addHook('preHandler', fastifyGuard(client, { cost: (request) => request.routeOptions.url ?? String(request.body) }));
     fastify().get('/', { onRequest: fastifyGuard(client, { route: (request) => request.hostname }) }, async () => '');
     new Hono().use('/a/*', honoGuard(client, { ip: (c) => c.req.header('x'), cost: (c) => c.req.query('x') ?? c.req.path }));
     new Koa().use(koaGuard(client, { cost: (ctx) => ctx.get('x'), route: (ctx) => ctx.path, onError: (_, ctx) => ctx.path }));`,
  );
  const types = ['--noEmit', '--skipLibCheck', '--types', 'node'];
  for (const resolution of resolutions)
    run([tsc, ...strict(resolution), ...types, ...files, 'framework-types.ts'], project);
});

const examples = ['express', 'fastify', 'koa', 'hono'].map((framework) => ['docs/protect-node.md', framework] as const);
for (const [page, framework] of [['README.md', 'express'] as const, ...examples]) {
  test(`the example for ${framework} in ${page} protects an API as it stands`, async () => {
    write('server.js', exampleFor(page, framework));
    for (const name of [framework, ...(framework === 'hono' ? ['@hono/node-server'] : [])]) link(name);
    const [port = 0] = await freePorts(1);
    const env = { KEYTALLY_VERIFY_URL: world.verify!.url, KEYTALLY_TOKEN: world.team.token, PORT: String(port) };
    const command = [process.execPath, 'server.js'];
    await whileServed({ command, cwd: project, env }, () => assertProtected(customers, `http://127.0.0.1:${port}/`));
  });
}
