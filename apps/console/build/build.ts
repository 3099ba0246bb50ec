// Builds the console's pages into apps/console/dist: node apps/console/build/build.ts. `make` and the image run it after they
// have installed the packages.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '..');
const assets = join(root, 'dist/assets');
const packages = ['preact', 'preact-iso', '@picocss/pico'];

const { outputFiles } = await build({
  entryPoints: [join(root, 'src/main.tsx'), join(root, 'src/style.css')],
  outdir: assets,
  entryNames: '[name]-[hash]',
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

mkdirSync(assets, { recursive: true });
const files = new Map<string, string | Uint8Array>(outputFiles.map(({ path, contents }) => [basename(path), contents]));
const names = [...files.keys()];
const page = readFileSync(join(root, 'src/index.html'), 'utf8').replace(/main\.js|style\.css/g, (file) => {
  return `/console/assets/${names.find((name) => name.endsWith(extname(file)))}`;
});
// Their licences ask for their notice wherever they go.
files.set('licences.txt', packages.map(licenceOf).join('\n\n'));
for (const [name, contents] of files) write(name, contents);
// Last: it names only files that are there.
write('../index.html', page);
for (const old of readdirSync(assets)) if (!files.has(old)) rmSync(join(assets, old), { force: true });

// Whole or not at all: an api may read it now.
function write(name: string, contents: string | Uint8Array): void {
  const unfinished = join(root, `dist/.${process.pid}.new`);
  writeFileSync(unfinished, contents);
  renameSync(unfinished, join(assets, name));
}

function licenceOf(name: string): string {
  const folder = join(root, '../../node_modules', name);
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one))!;
  return `${name}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
}
