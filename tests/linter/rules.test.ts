import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

const checkout = join(import.meta.dirname, '../..');
let project = '';
const test = suite('rules of our own');
test.before(async () => {
  project = await mkdtemp(join(tmpdir(), 'keytally-linted-'));
  await mkdir(join(project, 'tests/linter'), { recursive: true });
  for (const file of ['.oxlintrc.json', 'tests/linter/books.ts', 'tests/linter/clock.ts', 'tests/linter/postgres.ts'])
    await copyFile(join(checkout, file), join(project, file));
});
test.after(() => rm(project, { recursive: true, force: true }));

test('the linter refuses a query on the books anywhere but in shared/books and in the jobs that own them', async () => {
  const query = (table: string) => `export const query = \`select 1\n from ${table} where day = 1\`;\n`;
  const others = ['apps/api/routes', 'apps/api/resources', 'apps/verify', 'shared/http', 'apps/stack/commands'];
  for (const folder of others)
    assert.ok((await lint(folder, query('usage_days'))).includes('books(no-queries)'), folder);
  for (const table of ['usage_events', 'booked_days'])
    assert.ok((await lint('apps/api/routes', query(table))).includes('books(no-queries)'), table);
  const plain = `export const query = 'insert into usage_events values';\n`;
  assert.ok((await lint('apps/api/routes', plain)).includes('books(no-queries)'));
  for (const folder of ['shared/books', 'apps/consumer/jobs'])
    assert.not.ok((await lint(folder, query('usage_days'))).includes('books(no-queries)'), folder);
  assert.not.ok((await lint('apps/api/routes', query('usage_marks'))).includes('books(no-queries)'));
});

test('the linter lets nobody else say that a workspace was allowed', async () => {
  const text = (depth: string) =>
    `import { allowWorkspace } from '${depth}shared/books/usage/allowed-workspace.ts';\nexport const one = allowWorkspace('x');\n`;
  for (const folder of ['apps/api/routes/usage', 'apps/consumer/jobs', 'shared/books'])
    assert.ok((await lint(folder, text('../../../../'))).includes('books(no-allowing)'), folder);
  const type = "export type { AllowedWorkspace } from '../../../../shared/books/usage/allowed-workspace.ts';\n";
  assert.not.ok((await lint('apps/api/routes/usage', type)).includes('books(no-allowing)'));
});

test('the linter lets nobody connect with the driver as it is published', async () => {
  const text = (kind: string) => `import ${kind}postgres from 'postgres';\nexport type One = typeof postgres;\n`;
  for (const folder of ['apps/api/commands', 'apps/stack/servers', 'shared/books', 'tests/helpers'])
    assert.ok((await lint(folder, text(''))).includes('postgres(mended-driver)'), folder);
  assert.not.ok((await lint('apps/api/commands', text('type '))).includes('postgres(mended-driver)'));
});

test('the linter lets no program look at the time or wait for it by itself', async () => {
  const said = async (folder: string, text: string) => (await lint(folder, text)).includes('clock(given)');
  for (const text of ['Date.now()', 'new Date()', 'performance.now()', 'Math.random()', 'setTimeout(() => {}, 1)'])
    assert.ok(await said('apps/consumer/jobs', `export const one = ${text};\n`), text);
  assert.ok(await said('shared/books', "import { setTimeout as sleep } from 'node:timers/promises';\nsleep(1);\n"));
  assert.not.ok(await said('shared/books', 'export const one = new Date(1);\n'));
  assert.not.ok(await said('apps/stack/servers', 'export const one = Date.now();\n'));
});

test('places that may query the books are named one by one', async () => {
  type Override = { files: string[]; rules: Record<string, unknown> };
  const { overrides } = JSON.parse(await readFile(join(checkout, '.oxlintrc.json'), 'utf8')) as {
    overrides: Override[];
  };
  const files = overrides.filter(({ rules }) => rules['books/no-queries'] === 'off').flatMap((one) => one.files);
  const folders = files.filter((name) => name.includes('*'));
  const known = ['shared/books/**', 'apps/consumer/**', 'tests/**', 'bench/**', '**/*.test.ts', '**/helpers/**'];
  assert.equal(folders.toSorted(), known.toSorted());
});

test.run();

/** What oxlint says of a file in a folder of a project with our configuration. */
async function lint(folder: string, text: string): Promise<string> {
  const file = join(folder, 'query.ts');
  await mkdir(join(project, folder), { recursive: true });
  await writeFile(join(project, file), text);
  return new Promise((resolve) => {
    const program = [join(checkout, 'node_modules/.bin/oxlint'), file];
    execFile(process.execPath, program, { cwd: project }, (_, stdout) => resolve(stdout));
  });
}
