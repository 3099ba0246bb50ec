// The package as its users get it: built, installed, typed; and the examples of its pages, as they stand.
import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, makeCustomers, makeWorld, newWorkspace } from '../../../tests/helpers/world.ts';
import { pythonClient } from '../../../apps/stack/servers/python.ts';
import { freePorts } from '../../../apps/stack/process/ports.ts';
import { assertProtected, decided, whileServed, type Server } from '../../helpers/protected.ts';
import { blocksOf, checkout } from '../../node/helpers/project.ts';

const PAGE = 'docs/protect-python.md';
const folder = join(process.env.TEST_FOLDER ?? '', 'python');
const site = join(folder, 'site');
// The package that was built, in the place of the source.
const env = { ...process.env, PYTHONPATH: (process.env.PYTHONPATH ?? '').replace(pythonClient, site) };

mkdirSync(site, { recursive: true });
const world = await makeWorld(['verify']);
const customers = makeCustomers(world, await newWorkspace(world));

test('the package holds only what its users need, and its types', async () => {
  await python(['-m', 'hatchling', 'build', '-t', 'wheel', '-d', folder], pythonClient);
  const wheel = readdirSync(folder).find((name) => name.endsWith('.whl'))!;
  assert.is(wheel, 'keytally-1.0.0-py3-none-any.whl');
  await python(['-m', 'zipfile', '-e', join(folder, wheel), site]);
  const files = readdirSync(site, { recursive: true }).map(String);
  assert.ok(files.includes('keytally/py.typed'));
  const others = files.filter(
    (name) => !/^keytally(-1\.0\.0\.dist-info(\/(METADATA|RECORD|WHEEL))?|\/\w+\.(py|typed))?$/.test(name),
  );
  assert.equal(others, []);
});

test('mypy knows inputs and answers, and every example of the pages passes it', async () => {
  const blocks = [...blocksOf(PAGE, 'python'), ...blocksOf('clients/python/README.md', 'python')];
  assert.ok(blocks.length >= 9, `${blocks.length} examples`);
  const files = blocks.map((text, i) => write(`example_${i}.py`, text));
  const typed = write(
    'typed.py',
    `from keytally import Client
client = Client(url="http://a", token="b")
decision = client.verify({"key": "k", "billing": {"usage": "1"}})
status: str = decision["status"]
reveal_type(decision["billing"]["usedCredits"])
client.workspaces.create({"name": 1})
client.api_keys.create({"name": "k", "workspaceId": "w", "enabeld": True})
client.api_keys.list()
decision["nothing"]
client.verify({"key": "k"}, timeuot=1)
`,
  );
  const cache = join(checkout, 'node_modules/.cache/mypy-examples');
  const flags = ['--strict', '--python-version', '3.10', '--cache-dir', cache, '--no-error-summary'];
  // Django has no types of its own.
  const loose = ['--disable-error-code', 'import-untyped', '--disable-error-code', 'no-any-unimported'];
  const told = await mypy([...flags, ...loose, ...files, typed]);
  assert.not.match(told, /^example_/m, told);
  const lines = [...told.matchAll(/typed\.py:(\d+): (error|note)/g)].map(([, line]) => Number(line));
  assert.equal([...new Set(lines)], [5, 6, 7, 8, 9, 10], told);
  assert.match(told, /:5: note: Revealed type is "(builtins\.)?str"/);
});

const servers: [name: string, found: string, command: (port: string) => string[]][] = [
  ['FastAPI', 'app.add_middleware(KeytallyMiddleware, client=client, cost="0.25")\n', uvicorn],
  ['a dependency of FastAPI', 'handle_refusals(app)', uvicorn],
  ['Flask', 'cost="0.25")  # type', (port) => ['-m', 'flask', '--app', 'server', 'run', '--port', port]],
  [
    'Django',
    'get_wsgi_application(), client',
    (port) => [
      '-c',
      `from wsgiref.simple_server import *; from server import *; make_server("127.0.0.1", ${port}, application).serve_forever()`,
    ],
  ],
];

for (const [name, found, command] of servers) {
  test(`the example for ${name} protects an API as it stands`, async () => {
    writeExample('server.py', found);
    mkdirSync(join(folder, 'mysite'), { recursive: true });
    write('mysite/settings.py', `ROOT_URLCONF = "mysite.urls"\nALLOWED_HOSTS = ["*"]\nSECRET_KEY = "x"\n`);
    writeExample('mysite/urls.py', 'urlpatterns');
    const [port = 0] = await freePorts(1);
    await whileServed(served(command(String(port))), () => assertProtected(customers, `http://127.0.0.1:${port}/`));
  });
}

test('the example that captures debits what the handler says, and what a stream has told at its end', async () => {
  writeExample('server.py', 'capture_at_end(');
  const { key, meter } = await customers.meteredKey('10');
  const [port = 0] = await freePorts(1);
  await whileServed(served(uvicorn(String(port))), async () => {
    const get = async (path: string) => {
      const answer = await decided(`http://127.0.0.1:${port}${path}`, key);
      assert.is(answer.status, 200);
      await answer.text();
    };
    const used = (expected: string) =>
      eventually(expected, async () => (await customers.billing(meter)).usedCredits === expected);
    await get('/once');
    await used('0.1');
    await get('/stream');
    await used('0.104');
  });
});

test('the example of the other operations makes a workspace and lists its keys', async () => {
  writeExample('server.py', 'each(');
  assert.is(await python(['server.py'], folder, addresses()), 'first\n');
});

function uvicorn(port: string): string[] {
  return ['-m', 'uvicorn', 'server:app', '--port', port, '--log-level', 'error'];
}

function served(command: string[]): Server {
  return { command: ['python3', ...command], cwd: folder, env: { ...env, ...addresses() } };
}

function addresses() {
  return { KEYTALLY_API_URL: world.api.url, KEYTALLY_VERIFY_URL: world.verify!.url, KEYTALLY_TOKEN: world.team.token };
}

function write(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return name;
}

function writeExample(name: string, text: string): void {
  write(
    name,
    blocksOf(PAGE, 'python').find((block) => block.includes(text))!,
  );
}

/** The stack answers meanwhile: it runs in this process. */
async function python(args: string[], cwd = folder, more: Record<string, string> = {}): Promise<string> {
  return (await promisify(execFile)('python3', args, { cwd, env: { ...env, ...more } })).stdout;
}

async function mypy(args: string[]): Promise<string> {
  return python(['-m', 'mypy', ...args]).catch((error: { stdout: string }) => error.stdout);
}
