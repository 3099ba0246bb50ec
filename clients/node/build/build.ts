import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const packageFolder = join(import.meta.dirname, '..');
const tsc = join(packageFolder, '../../node_modules/.bin/tsc');

/** Builds the package into a folder: ES modules for every runtime, and CommonJS for Node. */
export function build(folder: string): void {
  compile(folder);
  const cjs = join(folder, 'cjs');
  compile(cjs, '--module', 'commonjs', '--moduleResolution', 'bundler', '--verbatimModuleSyntax', 'false');
  writeFileSync(join(cjs, 'package.json'), '{ "type": "commonjs" }\n');
  // For `import` on Node too: what a guard knows of a request must be known to `identityOf`, whichever way each was loaded.
  writeFileSync(join(folder, 'node.js'), "export * from './cjs/index.js';\n");
  for (const name of globSync('**/*.d.ts', { cwd: folder })) withJavaScriptNames(join(folder, name));
}

function compile(folder: string, ...options: string[]): void {
  execFileSync(tsc, ['-p', packageFolder, '--outDir', folder, ...options], { stdio: ['ignore', 'inherit', 'inherit'] });
}

// TypeScript rewrites the names of files in what runs, and not in declarations; older versions find no `.ts` there.
function withJavaScriptNames(file: string): void {
  writeFileSync(file, readFileSync(file, 'utf8').replace(/((?:from|import\() ?'\.\/[a-z-]+)\.ts'/g, "$1.js'"));
}

if (import.meta.main) build(process.argv[2] ?? join(packageFolder, 'dist'));
