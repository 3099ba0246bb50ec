import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { checkout } from '../../../apps/stack/process/home.ts';

export type Instruction = { name: string; args: string[] };
export type Stage = { name: string; image: string; instructions: Instruction[] };

/** The stages of the Dockerfile. Parses only the part of the language that ours uses. */
export function readDockerfile(text = readFileSync(join(checkout, 'Dockerfile'), 'utf8')): Stage[] {
  const stages: Stage[] = [];
  for (const line of text.split('\n').filter((one) => one && !one.startsWith('#'))) {
    const [name = '', ...args] = line.split(' ');
    if (name === 'FROM') stages.push({ image: args[0]!, name: args[2] ?? '', instructions: [] });
    else stages.at(-1)!.instructions.push({ name, args });
  }
  return stages;
}

/** The files of a COPY source that get into the build: all that .dockerignore does not ignore. */
export function filesToCopy(source: string): string[] {
  const path = join(checkout, source);
  if (!existsSync(path)) return [];
  const files = statSync(path).isDirectory()
    ? globSync(`${path}/**/*`).filter((one) => statSync(one).isFile())
    : [path];
  return files.map((one) => relative(checkout, one)).filter((one) => !isIgnored(one));
}

/** Whether .dockerignore ignores a file: the last pattern that matches it, or a folder that it is in, decides. */
export function isIgnored(file: string): boolean {
  let answer = false;
  const parts = file.split('/');
  const paths = parts.map((_, i) => parts.slice(0, i + 1).join('/'));
  const lines = readFileSync(join(checkout, '.dockerignore'), 'utf8').split('\n');
  for (const line of lines.filter((one) => one && !one.startsWith('#'))) {
    const pattern = line.replace(/^!/, '');
    if (paths.some((path) => matches(path, pattern))) answer = !line.startsWith('!');
  }
  return answer;
}

/** Runs the steps of all stages, each in an empty folder; gives the folder of the last. */
export function build(stages: Stage[], folder: string, env: NodeJS.ProcessEnv): string {
  for (const { name, instructions } of stages) {
    const root = join(folder, name || 'image');
    let workdir = root;
    for (const { name: instruction, args } of instructions) {
      if (instruction === 'WORKDIR') mkdirSync((workdir = join(root, args[0]!)), { recursive: true });
      else if (instruction === 'RUN') execFileSync('sh', ['-c', args.join(' ')], { cwd: workdir, env, stdio: 'pipe' });
      else if (instruction === 'COPY') copy(args, folder, workdir);
    }
  }
  return join(folder, stages.at(-1)!.name || 'image');
}

function copy(args: string[], folder: string, workdir: string): void {
  const from = args.find((one) => one.startsWith('--from='))?.slice('--from='.length);
  const paths = args.filter((one) => !one.startsWith('--'));
  const target = join(workdir, paths.at(-1)!);
  for (const source of paths.slice(0, -1)) {
    if (from) {
      const isFolder = statSync(join(folder, from, source)).isDirectory();
      cpSync(join(folder, from, source), isFolder ? target : join(target, source.split('/').at(-1)!), {
        recursive: true,
      });
      continue;
    }
    const isFolder = statSync(join(checkout, source)).isDirectory();
    for (const file of filesToCopy(source)) {
      const place = join(target, isFolder ? relative(source, file) : basename(file));
      mkdirSync(dirname(place), { recursive: true });
      cpSync(join(checkout, file), place);
    }
  }
}

// As in Docker, a leading dot is a character like any other.
function matches(path: string, pattern: string): boolean {
  const source = pattern
    .split(/(\*\*\/|\*)/)
    .map((part) => (part === '**/' ? '(.*/)?' : part === '*' ? '[^/]*' : RegExp.escape(part)));
  return new RegExp(`^${source.join('')}$`).test(path);
}
