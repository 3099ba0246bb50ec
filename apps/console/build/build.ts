// Builds the console's pages into apps/console/dist: node apps/console/build/build.ts. `make` and the image run it after they
// have installed the packages.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');
const ASSETS = '/console/assets/';
const packages = ['preact', 'preact-iso', '@picocss/pico'];

const { outputFiles } = await build({
  entryPoints: [join(root, 'src/main.tsx')],
  outdir: dist,
  entryNames: 'assets/[name]-[hash]',
  bundle: true,
  minify: true,
  write: false,
  format: 'esm',
  target: ['chrome123', 'firefox121', 'safari17.5'],
  // The one of the editor extends the checkout's, which the image does not have.
  tsconfigRaw: {},
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
});

mkdirSync(join(dist, 'assets'), { recursive: true });
const files = outputFiles.map(({ path, contents }) => ({ name: basename(path), contents }));
for (const { name, contents } of files) write(join('assets', name), contents);
write('assets/licences.txt', licences());
// Last: it names only files that are there.
write('index.html', page());
const names = new Set(['licences.txt', ...files.map(({ name }) => name)]);
for (const old of readdirSync(join(dist, 'assets')))
  if (!names.has(old)) rmSync(join(dist, 'assets', old), { force: true });

// Whole or not at all: an api may read it now.
function write(name: string, contents: string | Uint8Array): void {
  const unfinished = join(dist, `.${process.pid}.new`);
  writeFileSync(unfinished, contents);
  renameSync(unfinished, join(dist, name));
}

// Their licences ask for their notice wherever they go.
function licences(): string {
  const folders = packages.map((name) => ({ name, folder: join(root, '../../node_modules', name) }));
  return folders
    .map(({ name, folder }) => {
      const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one))!;
      return `${name}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
    })
    .join('\n\n');
}

function page(): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>keytally</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="${asset('css')}" />
    <script type="module" src="${asset('js')}"></script>
  </head>
  <body>
    <noscript>This page needs JavaScript.</noscript>
  </body>
</html>
`;
}

function asset(kind: 'css' | 'js'): string {
  return ASSETS + files.find(({ name }) => name.endsWith(`.${kind}`))!.name;
}
