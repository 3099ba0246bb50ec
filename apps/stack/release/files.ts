import { execFileSync, type ExecFileSyncOptions } from 'node:child_process';
import { hash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ensurePython } from '../servers/python.ts';
import { makeSbom } from './sbom.ts';

type Options = { checkout: string; commit: string; version: string; notes: string; folder: string };

/**
 * Writes the files of a release into a folder: sources, the clients for Node and Python, bill of materials, notes, provenance and
 * checksums. All of them come from the commit alone, not from the folder that it lies in, so the same commit gives the same bytes
 * with the same git, Node, npm and Python.
 */
export async function writeRelease({ checkout, commit, version, notes, folder }: Options): Promise<void> {
  const git = (...args: string[]) => run('git', args, { cwd: checkout });
  const source = mkdtempSync(join(tmpdir(), 'keytally-release-'));
  try {
    const archive = join(folder, `keytally-${version}.tar.gz`);
    git('archive', '--format=tar.gz', `--prefix=keytally-${version}/`, `--output=${archive}`, commit);
    run('tar', ['-xzf', archive, '--strip-components=1', '-C', source]);
    symlinkSync(join(checkout, 'node_modules'), join(source, 'node_modules'));

    run(process.execPath, ['clients/node/build/build.ts'], { cwd: source });
    const pack = ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder];
    run('npm', pack, { cwd: join(source, 'clients/node') });

    const seconds = git('log', '-1', '--format=%ct', commit);
    // The time that files in archives have.
    const env = { ...process.env, ...(await ensurePython()), SOURCE_DATE_EPOCH: seconds };
    const python = (...args: string[]) => run('python3', args, { cwd: join(source, 'clients/python'), env });
    python('-m', 'hatchling', 'build', '-d', join(folder, 'python'));

    write(`keytally-${version}.cdx.json`, makeSbom(source, Number(seconds)));
    write('NOTES.md', `# keytally ${version}\n\n${notes}\n`);
    const provenance = {
      version,
      commit: git('rev-parse', commit),
      tree: git('rev-parse', `${commit}^{tree}`),
      committedAt: git('log', '-1', '--format=%cI', commit),
      lockfile: `sha256:${hash('sha256', readFileSync(join(source, 'package-lock.json')))}`,
      git: git('--version'),
      node: process.version,
      npm: run('npm', ['--version']),
      python: python('--version'),
      hatchling: python('-c', 'import importlib.metadata as m; print(m.version("hatchling"))'),
      // Another one may compress differently.
      pythonZlib: python('-c', 'import zlib; print(zlib.ZLIB_RUNTIME_VERSION)'),
      repeat: `git checkout v${version} && make release VERSION=${version} REPEAT=1, then compare SHA256SUMS`,
    };
    write('PROVENANCE.json', `${JSON.stringify(provenance, null, 2)}\n`);
    write('SHA256SUMS', checksums().join(''));
  } finally {
    rmSync(source, { recursive: true });
  }

  function checksums(): string[] {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((one) => one.isFile())
      .map((one) => relative(folder, join(one.parentPath, one.name)))
      .toSorted()
      .map((name) => `${hash('sha256', readFileSync(join(folder, name)))}  ${name}\n`);
  }

  function write(name: string, text: string): void {
    writeFileSync(join(folder, name), text);
  }
}

/** Runs a program to its end; gives what it printed. */
export function run(command: string, args: string[], options: ExecFileSyncOptions = {}): string {
  const stdio: ExecFileSyncOptions['stdio'] = ['ignore', 'pipe', 'pipe'];
  return String(execFileSync(command, args, { stdio, maxBuffer: 256 * 1024 * 1024, ...options })).trim();
}
