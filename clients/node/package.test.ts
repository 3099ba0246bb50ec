// The package as its users get it: packed, installed into an empty project, used with TypeScript and without.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, type Customers } from '../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../tests/helpers/world.ts';

const checkout = join(import.meta.dirname, '../..');
const folder = join(process.env.TEST_FOLDER ?? '', 'package');
const project = join(folder, 'project');
const tsc = join(checkout, 'node_modules/.bin/tsc');

let world: World;
let customers: Customers;

const test = suite('the package');
test.before(async () => {
  world = await makeWorld(['verify'], { VERIFY_DEADLINE_MS: '2000' });
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(() => world.stop());

test('is packed without anything that its users do not need, and installed without anything else', () => {
  const source = join(folder, 'source');
  run([tsc, '-p', join(import.meta.dirname, 'tsconfig.json'), '--outDir', join(source, 'dist')], checkout);
  for (const name of ['package.json', 'README.md']) cpSync(join(import.meta.dirname, name), join(source, name));
  const [packed] = JSON.parse(run(['npm', 'pack', '--json'], source)) as {
    filename: string;
    files: { path: string }[];
  }[];
  const others = packed!.files.map(({ path }) => path).filter((path) => !/^dist\/[a-z-]+\.(js|d\.ts)$/.test(path));
  assert.equal(others.toSorted(), ['README.md', 'package.json']);
  assert.not(packed!.files.some(({ path }) => path.includes('test')));

  write('package.json', JSON.stringify({ private: true, type: 'module' }));
  run(['npm', 'install', '--offline', '--no-audit', '--no-fund', join(source, packed!.filename)], project);
  const installed = readdirSync(join(project, 'node_modules')).filter((name) => !name.startsWith('.'));
  assert.equal([installed, readdirSync(join(project, 'node_modules/@keytally'))], [['@keytally'], ['client']]);
});

test('works in JavaScript', async () => {
  const { key } = await customers.newKey();
  write(
    'main.js',
    `import { each, keytally } from '@keytally/client';
     const client = keytally({ url: '${world.api.url}', token: '${world.team.token}', verifyTimeoutMs: 20_000 });
     const names = [];
     for await (const { name } of each(client.workspaces.list)) names.push(name);
     console.log(names.join(), (await client.verify({ key: '${key}' })).status);`,
  );
  assert.is(run([process.execPath, 'main.js'], project), 'w VALID\n');
});

test('works in TypeScript, which knows what may be asked and what is answered', async () => {
  const { key } = await customers.newKey();
  write(
    'typed.ts',
    `import { keytally, KeytallyError, type Verification } from '@keytally/client';
     const client = keytally({ url: '${world.api.url}', token: '${world.team.token}', verifyTimeoutMs: 20_000 });
     const answer: Verification = await client.verify({ key: '${key}', billing: { usage: '1' } });
     const status: 'VALID' | 'EXPIRED' = answer.status as 'VALID';
     const { workspaces } = await client.workspaces.list();
     const name: string = workspaces[0]!.name;
     // @ts-expect-error -- a number is no name
     const error = await client.workspaces.create({ name: 1 }).catch((error: KeytallyError) => error);
     // @ts-expect-error -- there is no such field
     if (false) await client.apiKeys.create({ name: 'k', workspaceId: 'w', enabeld: true });
     // @ts-expect-error -- an id must be given
     if (false) await client.apiKeys.list();
     console.log(name, status, error instanceof KeytallyError && error.code);`,
  );
  for (const resolution of ['nodenext', 'bundler']) {
    const module = resolution === 'bundler' ? 'esnext' : resolution;
    const options = ['--strict', '--target', 'es2022', '--module', module, '--moduleResolution', resolution];
    run([tsc, ...options, '--types', '', 'typed.ts'], project);
    assert.is(run([process.execPath, 'typed.js'], project), 'w VALID 40001\n');
  }
});

for (const framework of ['koa', 'express']) {
  test(`protects an API in ${framework} with under ten lines, those of the README`, async () => {
    const blocks = [...readFileSync(join(checkout, 'README.md'), 'utf8').matchAll(/```js\n([^]*?)```/g)];
    const snippet = blocks.map(([, text]) => text!).find((text) => text.includes(`from '${framework}'`)) ?? '';
    const lines = snippet.split('\n').filter((line) => line.trim());
    assert.ok(lines.length > 0 && lines.length < 10, `${lines.length} lines`);
    write(`${framework}.js`, snippet);
    link(framework);
    const port = await freePort();
    const env = { KEYTALLY_VERIFY_URL: world.verify!.url, KEYTALLY_TOKEN: world.team.token, PORT: String(port) };
    const server = spawn(process.execPath, [`${framework}.js`], { cwd: project, env, stdio: 'inherit' });
    try {
      const { key, meter } = await meteredCustomer();
      const get = (headers: Record<string, string>) => fetch(`http://127.0.0.1:${port}/`, { headers });
      await eventually('it listens', () => get({}).catch(() => undefined), 60_000);
      // On a busy machine the second that a verification has may be over: that is a 503, and is tried again.
      let tries = 0;
      const decided = async (headers: Record<string, string>) => {
        tries += 1;
        const answer = await get(headers);
        return answer.status === 503 ? undefined : answer;
      };
      const refused = await eventually('it is refused', () => decided({ 'X-API-Key': 'key_nobody' }), 30_000);
      assert.equal([refused.status, refused.headers.get('www-authenticate')], [401, 'Bearer']);
      tries = 0;
      const answer = await eventually('it passes', () => decided({ Authorization: `Bearer ${key}` }), 30_000);
      assert.equal([answer.status, await answer.text()], [200, 'Hello cus_acme']);
      const used = Number((await customers.billing(meter)).usedCredits);
      assert.ok(used >= 0.25 && used <= 0.25 * tries, `${used} for ${tries} tries`);
    } finally {
      server.kill();
      await once(server, 'exit');
    }
  });
}

test.run();

async function meteredCustomer(): Promise<{ key: string; meter: string }> {
  const meter = await customers.newMeter({ totalCredits: '10' });
  const { key } = await customers.newKey({ externalMeterId: meter, customerId: 'cus_acme' });
  return { key, meter };
}

function run([command, ...args]: string[], cwd: string): string {
  try {
    return execFileSync(command!, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error });
  }
}

function write(name: string, text: string): void {
  mkdirSync(project, { recursive: true });
  writeFileSync(join(project, name), text);
}

// What its user has installed besides.
function link(name: string): void {
  const to = join(project, 'node_modules', name);
  mkdirSync(dirname(to), { recursive: true });
  symlinkSync(join(checkout, 'node_modules', name), to);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
