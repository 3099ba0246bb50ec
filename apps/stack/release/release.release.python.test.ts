// `make release`, in a repository of its own that has the files of this checkout.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from '../process/home.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'work', 'a-name-of-its-own');
const { version } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { version: string };
const files = join(folder, 'release', version);
// What git has not to know of, also in a clone.
const excluded = join(folder, '.git-exclude');
const config = { 'core.excludesFile': excluded, 'user.name': 'Releaser', 'user.email': 'releaser@example.com' };
const settings = Object.entries({ ...config, 'tag.gpgSign': 'false', 'commit.gpgSign': 'false' });
const env = {
  ...process.env,
  GIT_CONFIG_COUNT: String(settings.length),
  ...Object.fromEntries(
    settings.flatMap(([key, value], i) => [
      [`GIT_CONFIG_KEY_${i}`, key],
      [`GIT_CONFIG_VALUE_${i}`, value],
    ]),
  ),
};

test.before(() => {
  const listed = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const names = execFileSync('git', listed, { cwd: checkout, encoding: 'utf8' }).split('\0').filter(Boolean);
  for (const name of names) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    cpSync(join(checkout, name), join(folder, name), { verbatimSymlinks: true });
  }
  symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(excluded, '/node_modules\n/.git-exclude\n');
  git('init', '--quiet');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'All files');
});

test('a dry run writes every file of the release, and neither commits nor tags', () => {
  const head = git('rev-parse', 'HEAD');
  const { status, stderr } = release(folder, '--dry-run');
  assert.is(status, 0, stderr);
  assert.equal([git('rev-parse', 'HEAD'), git('tag', '--list'), git('status', '--porcelain')], [head, '', '']);
  const sums = readSums(files);
  const hash = (file: Buffer) => createHash('sha256').update(file).digest('hex');
  for (const [name, sum] of sums) assert.is(hash(readFileSync(join(files, name))), sum, name);
  const node = ['keytally-$.cdx.json', 'keytally-$.tar.gz', 'keytally-client-$.tgz'];
  const python = ['python/keytally-$-py3-none-any.whl', 'python/keytally-$.tar.gz'];
  const versioned = [...node, ...python].map((name) => name.replace('$', version));
  assert.equal([...sums.keys()], ['NOTES.md', 'PROVENANCE.json', ...versioned]);
  const provenance = JSON.parse(readFileSync(join(files, 'PROVENANCE.json'), 'utf8')) as Record<string, string>;
  assert.equal([provenance.commit, provenance.tree], [head, git('rev-parse', 'HEAD^{tree}')]);
  assert.match(readFileSync(join(files, 'NOTES.md'), 'utf8'), new RegExp(`^# keytally ${version}\n\n\\S`));
  const sdist = list(`python/keytally-${version}.tar.gz`).trim().split('\n');
  const usual = /^keytally-[\d.]+\/(keytally\/\w+\.(py|typed)|\.gitignore|[\w-]+(\.\w+)?)$/;
  const found = sdist.filter((name) => !usual.test(name));
  assert.equal(found, []);
  assert.match(list(`keytally-client-${version}.tgz`), /^package\/dist\/index\.js$/m);
  assert.match(list(`keytally-${version}.tar.gz`), new RegExp(`^keytally-${version}/deploy/helm/Chart\\.yaml$`, 'm'));
});

test('the bill of materials has every package that is shipped, with its hash, and no other', () => {
  const bom = JSON.parse(readFileSync(join(files, `keytally-${version}.cdx.json`), 'utf8')) as {
    components: { 'bom-ref': string; hashes?: unknown[] }[];
  };
  const { packages } = JSON.parse(readFileSync(join(checkout, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string; dev?: boolean; optional?: boolean; link?: boolean }>;
  };
  const shipped = Object.entries(packages)
    .filter(([path, { dev, optional, link }]) => path.startsWith('node_modules/') && !dev && !optional && !link)
    .map(([path, one]) => `${path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)}@${one.version}`);
  const own = ['@keytally/console', '@keytally/mcp', '@keytally/client', 'pkg:pypi/keytally'].map(
    (name) => `${name}@${version}`,
  );
  own.push(`pkg:golang/keytally.dev/keytally@v${version}`);
  const listed = bom.components.map((one) => one['bom-ref']);
  assert.equal(listed.toSorted(), [...new Set(shipped), ...own].toSorted());
  for (const one of bom.components) assert.ok(one.hashes || own.includes(one['bom-ref']), one['bom-ref']);
});

test('the same commit gives the same bytes, in another folder and at another time', () => {
  const other = `${folder}-moved`;
  git('clone', '--quiet', folder, other);
  symlinkSync(join(checkout, 'node_modules'), join(other, 'node_modules'));
  const { status, stderr } = release(other, '--dry-run');
  assert.is(status, 0, stderr);
  assert.equal(readSums(join(other, 'release', version)), readSums(files));
});

test('a release dates the changelog, tags the commit, and can be made again from its tag', () => {
  const { status, stderr } = release(folder);
  assert.is(status, 0, stderr);
  const dated = new RegExp(`^## \\[${RegExp.escape(version)}\\] - \\d{4}-\\d\\d-\\d\\d$`, 'm');
  assert.match(git('show', `v${version}:CHANGELOG.md`), dated);
  assert.is(git('rev-parse', `clients/go/v${version}^{commit}`), git('rev-parse', 'HEAD'));
  assert.is(git('log', '-1', '--format=%s'), `Release ${version}`);
  const first = readSums(files);
  assert.match(release(folder).stderr, /is there already; REPEAT=1 makes its files again/);
  assert.is(release(folder, '--repeat').status, 0);
  assert.equal(readSums(files), first);
});

function readSums(of: string): Map<string, string> {
  const lines = readFileSync(join(of, 'SHA256SUMS'), 'utf8').trim().split('\n');
  return new Map(lines.map((line) => line.split('  ').toReversed() as [string, string]));
}

function release(cwd: string, ...args: string[]) {
  const script = ['apps/stack/release/main.ts', '--version', version, ...args];
  return spawnSync(process.execPath, script, {
    cwd,
    env: { ...env, TZ: cwd === folder ? 'UTC' : 'Asia/Tokyo' },
    encoding: 'utf8',
  });
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: folder, env, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 }).trim();
}

function list(name: string): string {
  return execFileSync('tar', ['-tzf', join(files, name)], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
}
