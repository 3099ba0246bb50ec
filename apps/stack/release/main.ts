// Makes a release: make release VERSION=1.2.3; DRY_RUN=1 writes the files alone, REPEAT=1 those of a released version again.
import '../../../shared/runtime/require-node.ts';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeFailure, StackError } from '../process/errors.ts';
import { checkout } from '../process/home.ts';
import { notesOf, released } from './changelog.ts';
import { writeRelease } from './files.ts';

const { values } = parseArgs({
  options: {
    version: { type: 'string', default: '' },
    'dry-run': { type: 'boolean', default: false },
    repeat: { type: 'boolean', default: false },
  },
});
try {
  await release(values.version);
} catch (error) {
  console.error(`keytally: ${describeFailure(error)}`);
  process.exitCode = 1;
}

async function release(version: string): Promise<void> {
  if (!/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(version))
    throw new StackError('name the version: make release VERSION=1.2.3');
  requireVersion(version);
  const tag = `v${version}`;
  if (git('status', '--porcelain') !== '') throw new StackError('there are changes that are not committed');
  const changelog = readFileSync(join(checkout, 'CHANGELOG.md'), 'utf8');
  const tagged = git('tag', '--list', tag) !== '';
  if (values.repeat) {
    if (!tagged) throw new StackError(`there is no tag ${tag} to repeat`);
    return await write(version, `${tag}^{commit}`);
  }
  if (tagged) throw new StackError(`the tag ${tag} is there already; REPEAT=1 makes its files again`);
  notesOf(changelog, version);
  if (values['dry-run']) {
    await write(version, 'HEAD');
    console.log(
      `dry run: CHANGELOG.md stays, and nothing is tagged. The files of the release itself come from its commit`,
    );
    return;
  }
  // 1. The day. A crash here leaves a change that git shows, and that git checkout takes back.
  const day = new Date().toISOString().slice(0, 10);
  writeFileSync(join(checkout, 'CHANGELOG.md'), released(changelog, version, day));
  git('commit', '--quiet', '--message', `Release ${version}`, 'CHANGELOG.md');
  // 2. The files, before the tag: a release that can't be built gets none. Undo the commit, mend it, and begin again.
  await write(version, 'HEAD');
  // 3. The tag; signed if git's tag.gpgSign says so.
  git('tag', '--annotate', '--message', `keytally ${version}`, tag);
  // Go finds a module in a folder by a tag with its path.
  const modules = git('ls-files', 'clients/*/go.mod').split('\n').filter(Boolean);
  const tags = [tag, ...modules.map((file) => `${dirname(file)}/${tag}`)];
  for (const one of tags.slice(1)) git('tag', '--annotate', '--message', `keytally ${version}`, one);
  console.log(`released: now push the commit and the tags ${tags.join(' ')}, and publish what is in the folder`);
}

async function write(version: string, commit: string): Promise<void> {
  const folder = join(checkout, 'release', version);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const changelog = git('show', `${commit}:CHANGELOG.md`).replace(`## [${version}] - `, '## [%] - ');
  const notes = notesOf(changelog.replace(/^## \[%\] - \S+/m, `## [${version}] - unreleased`), version);
  await writeRelease({ checkout, commit, version, notes, folder });
  process.stdout.write(`${folder}:\n${readFileSync(join(folder, 'SHA256SUMS'), 'utf8')}`);
}

/** Every file that names the version names this one. */
function requireVersion(version: string): void {
  const json = (path: string) =>
    (JSON.parse(readFileSync(join(checkout, path), 'utf8')) as { version: string }).version;
  const chart = readFileSync(join(checkout, 'deploy/helm/Chart.yaml'), 'utf8');
  const python = readFileSync(join(checkout, 'clients/python/pyproject.toml'), 'utf8');
  const named = {
    'package.json': json('package.json'),
    'clients/node/package.json': json('clients/node/package.json'),
    'clients/python/pyproject.toml': /^version = "(.+)"$/m.exec(python)?.[1],
    'apps/mcp/package.json': json('apps/mcp/package.json'),
    'version in deploy/helm/Chart.yaml': /^version: (.+)$/m.exec(chart)?.[1],
    'appVersion in deploy/helm/Chart.yaml': /^appVersion: (.+)$/m.exec(chart)?.[1],
  };
  const others = Object.entries(named).filter(([, one]) => one !== version);
  if (others.length > 0)
    throw new StackError(`not ${version}: ${others.map(([file, one]) => `${file} says ${one}`).join(', ')}`);
}

function git(...args: string[]): string {
  try {
    return execFileSync('git', args, {
      cwd: checkout,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 64 * 1024 * 1024,
    }).trim();
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string };
    throw new StackError(`git ${args[0]} failed: ${stderr.trim().split('\n')[0] ?? ''}`, { cause: error });
  }
}
