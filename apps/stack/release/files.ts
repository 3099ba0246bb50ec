import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { writeGoModule } from './go-module.ts';
import { buildPythonClient } from './python-client.ts';
import { makeSbom } from './sbom.ts';

type Options = { checkout: string; commit: string; version: string; notes: string; folder: string };

/**
 * Writes the files of a release into a folder: sources, the clients for Node, Python and Go, bill of materials, notes, provenance and
 * checksums. All of them come from the commit alone, not from the folder that it lies in, so the same commit gives the same bytes
 * with the same Node, npm and Python.
 */
export async function writeRelease({ checkout, commit, version, notes, folder }: Options): Promise<void> {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: checkout, encoding: 'utf8', maxBuffer: 256 * 1024 * 1024 }).trim();
  const source = mkdtempSync(join(tmpdir(), 'keytally-release-'));
  try {
    const tree = execFileSync('git', ['archive', commit], { cwd: checkout, maxBuffer: 1024 * 1024 * 1024 });
    execFileSync('tar', ['-x', '-C', source], { input: tree });
    symlinkSync(join(checkout, 'node_modules'), join(source, 'node_modules'));

    archive();
    packNodeClient(source, folder);
    const committedAt = new Date(Number(git('log', '-1', '--format=%ct', commit)) * 1000);
    const python = await buildPythonClient({ source, committedAt, folder: join(folder, 'python') });
    writeGoModule({ source, version, committedAt, folder: join(folder, 'go') });
    write(`keytally-${version}.cdx.json`, makeSbom(source, committedAt));
    write('NOTES.md', `# keytally ${version}\n\n${notes}\n`);
    write('PROVENANCE.json', `${JSON.stringify({ ...provenance(), ...python }, null, 2)}\n`);
    write('SHA256SUMS', checksums().join(''));
  } finally {
    rmSync(source, { recursive: true });
  }

  function archive(): void {
    const args = ['archive', '--format=tar', `--prefix=keytally-${version}/`, commit];
    const tar = execFileSync('git', args, { cwd: checkout, maxBuffer: 1024 * 1024 * 1024 });
    writeFileSync(join(folder, `keytally-${version}.tar.gz`), gzipSync(tar, { level: 9 }));
  }

  function provenance(): object {
    return {
      version,
      commit: git('rev-parse', commit),
      tree: git('rev-parse', `${commit}^{tree}`),
      committedAt: git('log', '-1', '--format=%cI', commit),
      lockfile: `sha256:${sha256(join(source, 'package-lock.json'))}`,
      node: process.version,
      npm: execFileSync('npm', ['--version'], {
        cwd: checkout,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim(),
      repeat: `git checkout v${version} && make release VERSION=${version} REPEAT=1, then compare SHA256SUMS`,
    };
  }

  function checksums(): string[] {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((one) => one.isFile())
      .map((one) => relative(folder, join(one.parentPath, one.name)))
      .toSorted()
      .map((name) => `${sha256(join(folder, name))}  ${name}\n`);
  }

  function write(name: string, text: string): void {
    writeFileSync(join(folder, name), text);
  }
}

function packNodeClient(source: string, folder: string): void {
  execFileSync(process.execPath, ['clients/node/build/build.ts'], {
    cwd: source,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder];
  execFileSync('npm', args, { cwd: join(source, 'clients/node'), stdio: ['ignore', 'ignore', 'inherit'] });
}

function sha256(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}
