import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import config from '../../oxlint.config.ts';
import { checkout } from '../../apps/stack/process/home.ts';

const project = join(process.env.TEST_FOLDER ?? '', 'linted');
const query = (table: string) => `export const query = \`select 1\n from ${table} where day = 1\`;\n`;
const allow = `import { allowWorkspace } from '../shared/books/usage/allowed-workspace.ts';\nexport const one = allowWorkspace('x');\n`;
const driver = (kind: string) => `import ${kind}postgres from 'postgres';\nexport type One = typeof postgres;\n`;

/** A file in a folder, and the rule of our own that refuses it. */
const files: [folder: string, text: string, rule?: string][] = [
  ['apps/api/routes', query('usage_days'), 'own(no-queries)'],
  ['apps/verify', query('usage_events'), 'own(no-queries)'],
  ['shared/http', query('booked_days'), 'own(no-queries)'],
  ['apps/api/resources', `export const query = 'insert into usage_events values';\n`, 'own(no-queries)'],
  ['apps/stack/commands', query('usage_marks')],
  ['shared/books', query('usage_days')],
  ['apps/consumer/jobs', query('usage_days')],
  ['apps/api/routes', allow, 'own(no-allowing)'],
  ['apps/consumer/jobs', allow, 'own(no-allowing)'],
  ['shared/books', allow, 'own(no-allowing)'],
  ['apps/api/routes', "export type { AllowedWorkspace } from '../shared/books/usage/allowed-workspace.ts';\n"],
  ['apps/api/commands', driver(''), 'own(mended-driver)'],
  ['tests/helpers', driver(''), 'own(mended-driver)'],
  ['apps/api/commands', driver('type ')],
  ['shared/events', 'export const now = Date.now();\n', 'own(given-time)'],
  ['shared/events', 'export const now = new Date(0);\n'],
  ['apps/api/http', 'export function tellWebhooks() {}\n', 'own(gone-words)'],
  ['apps/api/http', 'export const madePlaces = 1;\n', 'own(gone-words)'],
  ['apps/api/http', 'export const intelligible = 1;\n'],
];

test('the linter refuses queries on the books, who says that a workspace was allowed, the published driver, who takes the time himself, and words that are gone, but where they belong', () => {
  for (const file of ['oxlint.config.ts', 'tests/linter/own.ts']) {
    mkdirSync(join(project, file, '..'), { recursive: true });
    copyFileSync(join(checkout, file), join(project, file));
  }
  const paths = files.map(([folder, text], i) => {
    mkdirSync(join(project, folder), { recursive: true });
    writeFileSync(join(project, folder, `file-${i}.ts`), text);
    return join(folder, `file-${i}.ts`);
  });
  const oxlint = [join(checkout, 'node_modules/.bin/oxlint'), '--format', 'unix', ...paths];
  const lines = spawnSync(process.execPath, oxlint, { cwd: project, encoding: 'utf8' }).stdout.split('\n');
  for (const [i, [folder, text, rule]] of files.entries()) {
    const said = lines.filter((line) => line.includes(`file-${i}.ts:`)).join();
    assert.equal(said.match(/own\([\w-]+\)/g) ?? [], rule ? [rule] : [], `${folder}: ${text}${said}`);
  }
});

test('places that may query the books are named one by one', () => {
  const allowed = config.overrides
    .filter(({ rules }) => 'own/no-queries' in rules && rules['own/no-queries'] === 'off')
    .flatMap(({ files }) => files);
  const known = ['shared/books/**', 'apps/consumer/**', 'tests/**', 'bench/**', '**/*.test.ts', '**/helpers/**'];
  assert.equal(allowed.filter((name) => name.includes('*')).toSorted(), known.toSorted());
});
