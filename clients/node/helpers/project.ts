// An empty project of a user of the client, and the examples on the pages.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build } from '../build/build.ts';

export const checkout = join(import.meta.dirname, '../../..');
/** For all files of the test. */
export const folder = join(process.env.TEST_FOLDER ?? '', 'package');
export const project = join(folder, 'project');
export const tsc = join(checkout, 'node_modules/.bin/tsc');
export const resolutions = ['nodenext', 'bundler'];

/** Runs a command to its end and gives its output. */
export function run([command, ...args]: string[], cwd: string): string {
  try {
    return execFileSync(command!, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error });
  }
}

/** Packs the client, installs it into the project as its users do, and gives what was packed. */
export function installPackage(): { source: string; files: { path: string }[] } {
  const source = join(folder, 'source');
  build(join(source, 'dist'));
  for (const name of ['package.json', 'README.md']) cpSync(join(checkout, 'clients/node', name), join(source, name));
  const [packed] = JSON.parse(run(['npm', 'pack', '--json'], source)) as {
    filename: string;
    files: { path: string }[];
  }[];
  write('package.json', JSON.stringify({ private: true, type: 'module' }));
  run(['npm', 'install', '--offline', '--no-audit', '--no-fund', join(source, packed!.filename)], project);
  return { source, files: packed!.files };
}

/** The Node of this test, the host's own, and older ones: programs of other people run on those. By version. */
export function nodes(): Map<string, string> {
  const hosts = (process.env.PATH ?? '').split(':').filter((folder) => !folder.includes('node_modules'));
  const older = (process.env.TEST_OLDER_NODES ?? '').split(':');
  const found = new Map([[process.versions.node, process.execPath]]);
  for (const node of [...hosts.map((folder) => join(folder, 'node')), ...older]) {
    if (!existsSync(node)) continue;
    const version = run([node, '-p', 'process.versions.node'], checkout).trim();
    if (Number.parseInt(version, 10) >= 20) found.set(version, node);
  }
  return found;
}

/** tsc's options for a strict check with a module resolution. */
export function strict(resolution: string): string[] {
  const modules: Record<string, string> = { bundler: 'esnext', node10: 'commonjs' };
  const module = modules[resolution] ?? resolution;
  const checks = ['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess'];
  return [...checks, '--target', 'es2022', '--module', module, '--moduleResolution', resolution];
}

/** The blocks of a language on a page. */
export function blocksOf(page: string, language: string): string[] {
  const text = readFileSync(join(checkout, page), 'utf8');
  return [...text.matchAll(/^```(\w+)\n([^]*?)^```$/gm)].flatMap(([, name, block = '']) =>
    name === language ? [block] : [],
  );
}

/** A page's example in JavaScript for a framework. */
export function exampleFor(page: string, framework: string): string {
  const found = blocksOf(page, 'js').find((block) => block.includes(`from '${framework}'`));
  if (!found) throw new Error(`${page} has no example in JavaScript for ${framework}`);
  return found;
}

/** Writes a file into the project, and gives its name. */
export function write(name: string, text: string): string {
  mkdirSync(project, { recursive: true });
  writeFileSync(join(project, name), text);
  return name;
}

/** Installs a package that the user of the client has besides. */
export function link(name: string): void {
  const to = join(project, 'node_modules', name);
  mkdirSync(dirname(to), { recursive: true });
  if (!existsSync(to)) symlinkSync(join(checkout, 'node_modules', name), to);
}
