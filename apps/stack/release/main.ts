// Makes a release: make release VERSION=1.2.3; DRY_RUN=1 writes the files alone, REPEAT=1 those of a released version again.
import '../../../shared/runtime/require-node.ts';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeFailure, StackError } from '../process/errors.ts';
import { checkout } from '../process/home.ts';
import { run, writeRelease } from './files.ts';

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
  if (sectionOf(changelog, version).state !== 'unreleased')
    throw new StackError(`CHANGELOG.md says that ${version} was released`);
  if (values['dry-run']) {
    await write(version, 'HEAD');
    console.log(
      `dry run: CHANGELOG.md stays, and nothing is tagged. The files of the release itself come from its commit`,
    );
    return;
  }
  // 1. The day. A crash here leaves a change that git shows, and that git checkout takes back.
  const day = new Date().toISOString().slice(0, 10);
  const dated = changelog.replace(`## [${version}] - unreleased`, `## [${version}] - ${day}`);
  writeFileSync(join(checkout, 'CHANGELOG.md'), dated);
  git('commit', '--quiet', '--message', `Release ${version}`, 'CHANGELOG.md');
  // 2. The files, before the tag: a release that can't be built gets none. Undo the commit, mend it, and begin again.
  await write(version, 'HEAD');
  // 3. The tag; signed if git's tag.gpgSign says so.
  git('tag', '--annotate', '--message', `keytally ${version}`, tag);
  // Go finds a module in a folder by a tag with its path.
  const ofGo = `clients/go/${tag}`;
  git('tag', '--annotate', '--message', `keytally ${version}`, ofGo);
  console.log(`released: now push the commit and the tags ${tag} ${ofGo}, and publish what is in the folder`);
}

async function write(version: string, commit: string): Promise<void> {
  const folder = join(checkout, 'release', version);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const { notes } = sectionOf(git('show', `${commit}:CHANGELOG.md`), version);
  await writeRelease({ checkout, commit, version, notes, folder });
  process.stdout.write(`${folder}:\n${readFileSync(join(folder, 'SHA256SUMS'), 'utf8')}`);
}

/** What the changelog says of a version: `unreleased` or the day of its release, and the notes. */
function sectionOf(changelog: string, version: string): { state: string; notes: string } {
  const pattern = new RegExp(`^## \\[${RegExp.escape(version)}\\] - (\\S+)\n([^]*?)(?=^## \\[|(?![^]))`, 'm');
  const [, state = '', notes = ''] = pattern.exec(changelog) ?? [];
  if (notes.trim() === '') throw new StackError(`CHANGELOG.md says nothing under \`## [${version}] - unreleased\``);
  return { state, notes: notes.trim() };
}

/** Every file that names the version names this one. */
function requireVersion(version: string): void {
  const named: [file: string, pattern: RegExp][] = [
    ['package.json', /^ {2}"version": "(.+)"/m],
    ['clients/node/package.json', /^ {2}"version": "(.+)"/m],
    ['apps/mcp/package.json', /^ {2}"version": "(.+)"/m],
    ['clients/python/pyproject.toml', /^version = "(.+)"$/m],
    ['deploy/helm/Chart.yaml', /^version: (.+)$/m],
    ['deploy/helm/Chart.yaml', /^appVersion: (.+)$/m],
  ];
  const others = named.flatMap(([file, pattern]) => {
    const one = pattern.exec(readFileSync(join(checkout, file), 'utf8'))?.[1];
    return one === version ? [] : [`${file} says ${one}`];
  });
  if (others.length > 0) throw new StackError(`not ${version}: ${others.join(', ')}`);
}

function git(...args: string[]): string {
  try {
    return run('git', args, { cwd: checkout });
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string | Buffer };
    throw new StackError(`git ${args[0]} failed: ${String(stderr).trim().split('\n')[0]}`, { cause: error });
  }
}
