// `make release` and `make sbom`, in a repository of its own that has the files of this checkout.
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
const RELEASE = ['apps/stack/release/main.ts'];
test.before(() => {
  mkdirSync(folder, { recursive: true });
  const listed = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const names = execFileSync('git', listed, { cwd: checkout, encoding: 'utf8' }).split('\0').filter(Boolean);
  for (const name of names) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    cpSync(join(checkout, name), join(folder, name), { verbatimSymlinks: true });
  }
  symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, '.git-exclude'), '/node_modules\n/.git-exclude\n');
  git('init', '--quiet');
  git('config', 'core.excludesFile', join(folder, '.git-exclude'));
  for (const [name, value] of [
    ['user.name', 'Releaser'],
    ['user.email', 'releaser@example.com'],
    ['tag.gpgSign', 'false'],
    ['commit.gpgSign', 'false'],
  ] as const)
    git('config', name, value);
  git('add', '--all');
  git('commit', '--quiet', '--message', 'All files');
});

test('a dry run writes every file of the release, and neither commits nor tags', () => {
  const head = git('rev-parse', 'HEAD');
  const { status, stdout, stderr } = release('--version', version, '--dry-run');
  assert.is(status, 0, stderr);
  assert.match(stdout, /^dry run: CHANGELOG\.md stays, and nothing is tagged/m);
  assert.equal([git('rev-parse', 'HEAD'), git('tag', '--list'), git('status', '--porcelain')], [head, '', '']);

  const sums = readSums(files);
  for (const [name, sum] of sums) {
    const hash = createHash('sha256').update(readFileSync(join(files, name)));
    assert.is(hash.digest('hex'), sum, name);
  }
  for (const name of [
    `keytally-${version}.tar.gz`,
    `keytally-client-${version}.tgz`,
    `keytally-${version}.cdx.json`,
    `python/keytally-${version}-py3-none-any.whl`,
    `python/keytally-${version}.tar.gz`,
    `go/keytally.dev/keytally/@v/v${version}.zip`,
  ])
    assert.ok(sums.has(name), name);
  const provenance = JSON.parse(readFileSync(join(files, 'PROVENANCE.json'), 'utf8')) as Record<string, string>;
  assert.equal([provenance.commit, provenance.tree], [head, git('rev-parse', 'HEAD^{tree}')]);
  assert.match(readFileSync(join(files, 'NOTES.md'), 'utf8'), new RegExp(`^# keytally ${version}\n\n\\S`));
  assert.equal([typeof provenance.python, typeof provenance.hatchling], ['string', 'string']);
  const sdist = list(`python/keytally-${version}.tar.gz`).trim().split('\n');
  const others = sdist.filter(
    (name) => !/^keytally-[\d.]+\/(keytally\/\w+\.(py|typed)|\.gitignore|[\w-]+(\.\w+)?)$/.test(name),
  );
  assert.equal(others, []);
  assert.match(list(`keytally-client-${version}.tgz`), /^package\/dist\/index\.js$/m);
  assert.match(list(`keytally-${version}.tar.gz`), new RegExp(`^keytally-${version}/deploy/helm/Chart\\.yaml$`, 'm'));
});

test('the bill of materials has every package that is shipped, with its hash, and no other', () => {
  type Component = { 'bom-ref': string; name: string; version: string; hashes?: unknown[] };
  const bom = JSON.parse(readFileSync(join(files, `keytally-${version}.cdx.json`), 'utf8')) as {
    bomFormat: string;
    metadata: { component: Component };
    components: Component[];
  };
  assert.equal(
    [bom.bomFormat, bom.metadata.component.name, bom.metadata.component.version],
    ['CycloneDX', 'keytally', version],
  );
  const { packages } = JSON.parse(readFileSync(join(checkout, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string; dev?: boolean; optional?: boolean; link?: boolean }>;
  };
  const shipped = Object.entries(packages)
    .filter(([path, { dev, optional, link }]) => path.startsWith('node_modules/') && !dev && !optional && !link)
    .map(([path, one]) => `${path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)}@${one.version}`);
  const own = (one: Component) => /^(@keytally\/|pkg:(pypi|golang)\/keytally)/.test(one['bom-ref']);
  assert.equal(
    bom.components.filter(own).map((one) => one['bom-ref']),
    [
      `@keytally/console@${version}`,
      `@keytally/mcp@${version}`,
      `@keytally/client@${version}`,
      `pkg:pypi/keytally@${version}`,
      `pkg:golang/keytally.dev/keytally@v${version}`,
    ],
  );
  const listed = bom.components.filter((one) => !own(one));
  assert.equal(listed.map((one) => `${one.name}@${one.version}`).toSorted(), [...new Set(shipped)].toSorted());
  for (const { name, hashes = [] } of listed) assert.ok(hashes.length > 0, name);
});

test('the same commit gives the same bytes, in another folder and at another time', () => {
  const other = `${folder}-moved`;
  git('clone', '--quiet', folder, other);
  symlinkSync(join(checkout, 'node_modules'), join(other, 'node_modules'));
  const excluded = {
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'core.excludesFile',
    GIT_CONFIG_VALUE_0: join(folder, '.git-exclude'),
  };
  const { status, stderr } = spawnSync(process.execPath, [...RELEASE, '--version', version, '--dry-run'], {
    cwd: other,
    env: { ...process.env, ...excluded, TZ: 'Asia/Tokyo' },
    encoding: 'utf8',
  });
  assert.is(status, 0, stderr);
  assert.equal(readSums(join(other, 'release', version)), readSums(files));
});

test('a release dates the changelog, tags the commit, and can be made again from its tag', () => {
  const { status, stderr } = release('--version', version);
  assert.is(status, 0, stderr);
  const dated = new RegExp(`^## \\[${RegExp.escape(version)}\\] - \\d{4}-\\d\\d-\\d\\d$`, 'm');
  assert.match(git('show', `v${version}:CHANGELOG.md`), dated);
  assert.is(git('rev-parse', `v${version}^{commit}`), git('rev-parse', 'HEAD'));
  assert.is(git('log', '-1', '--format=%s'), `Release ${version}`);
  const first = readSums(files);
  assert.match(release('--version', version).stderr, /is there already; REPEAT=1 makes its files again/);
  assert.is(release('--version', version, '--repeat').status, 0);
  assert.equal(readSums(files), first);
});

/** The checksums of a release, by its files. */
function readSums(of: string): Map<string, string> {
  const lines = readFileSync(join(of, 'SHA256SUMS'), 'utf8').trim().split('\n');
  return new Map(lines.map((line) => line.split('  ').toReversed() as [string, string]));
}

function release(...args: string[]) {
  return spawnSync(process.execPath, [...RELEASE, ...args], { cwd: folder, encoding: 'utf8' });
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: folder, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 }).trim();
}

function list(name: string): string {
  return execFileSync('tar', ['-tzf', join(files, name)], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
}
