// Builds the console's pages into apps/console/dist: node apps/console/build/build.ts. `make` and the image run it after they
// have installed the packages.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');
const packages = ['preact', 'preact-iso', 'uplot', '@picocss/pico'];

const { outputFiles } = await build({
  entryPoints: [join(root, 'src/main.tsx')],
  outdir: dist,
  bundle: true,
  minify: true,
  write: false,
  format: 'esm',
  target: ['es2022', 'chrome109', 'firefox115', 'safari16'],
  // The one of the editor extends the checkout's, which the image does not have.
  tsconfigRaw: {},
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
});

mkdirSync(join(dist, 'assets'), { recursive: true });
const names = { js: '', css: '' };
for (const { path, contents } of outputFiles) {
  const kind = path.endsWith('.css') ? 'css' : 'js';
  const hash = createHash('sha256').update(contents).digest('base64url').replace(/\W/g, '').slice(0, 12);
  names[kind] = `console-${hash}.${kind}`;
  write(join('assets', names[kind]), contents);
}
write('assets/licences.txt', licences());
// Last: it names only files that are there.
write('index.html', page());
for (const old of readdirSync(join(dist, 'assets')))
  if (![names.js, names.css, 'licences.txt'].includes(old)) rmSync(join(dist, 'assets', old), { force: true });

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
    <link rel="stylesheet" href="/console/assets/${names.css}" />
    <script type="module" src="/console/assets/${names.js}"></script>
  </head>
  <body>
    <noscript>This page needs JavaScript.</noscript>
  </body>
</html>
`;
}
