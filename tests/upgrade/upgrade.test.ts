// The parts of `make upgrade`, which itself takes minutes.
import { existsSync, lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from '../../apps/stack/process/home.ts';
import { ofVersion } from '../faults/stage-programs.ts';
import { ourProgram } from '../../apps/stack/servers/programs.ts';
import { before } from './before.ts';
import { checkOut, shareModules } from './check-out.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'upgrade');
const programs = ['api', 'verify', 'relay', 'consumer', 'webhooks'] as const;

test('a commit that this clone lacks is said loudly', async () => {
  const failed = await checkOut('0123456789012345678901234567890123456789', join(folder, 'lost')).catch(String);
  assert.match(failed, /THE VERSION BEFORE IS NOT HERE: this clone has no commit 0123456789/);
  assert.not.ok(existsSync(join(folder, 'lost')));
});

test('every program is replaced forward, and on the way back no schema changes', () => {
  for (const { forward, back = ['replace all'] } of Object.values(before)) {
    assert.equal(forward.filter((step) => step === 'migrate').length, 1);
    for (const steps of [forward, back]) {
      const isReplaced = (which: string) =>
        steps.some((step) => [`replace ${which}`, `start ${which}`, 'replace all'].includes(step));
      assert.equal(
        programs.filter((which) => !isReplaced(which)),
        [],
      );
    }
    assert.not.ok(back.includes('migrate'));
  }
});

test('the page names the versions that were upgraded', () => {
  const page = readFileSync(join(checkout, 'docs/deploy.md'), 'utf8');
  for (const { commit } of Object.values(before)) assert.match(page, `\`${commit.slice(0, 7)}\``);
});

test('packages are shared with a version of the same lockfile, and no longer once it is another', () => {
  const [ours, theirs] = [join(folder, 'ours'), join(folder, 'theirs')];
  for (const one of [join(ours, 'node_modules'), theirs]) mkdirSync(one, { recursive: true });
  const modules = join(theirs, 'node_modules');
  const isLinked = () => lstatSync(modules, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
  writeFileSync(join(theirs, 'package-lock.json'), 'one');
  writeFileSync(join(ours, 'package-lock.json'), 'one');
  shareModules(theirs, ours);
  assert.ok(isLinked());
  writeFileSync(join(ours, 'package-lock.json'), 'two');
  shareModules(theirs, ours);
  assert.not.ok(isLinked());
  assert.ok(existsSync(join(ours, 'node_modules')));
});

test('a program of another version runs its own script, and is not there where that has none', () => {
  const mine = ourProgram('relay', 'relay-1', 1, {});
  mkdirSync(join(folder, 'old/apps/relay'), { recursive: true });
  assert.is(ofVersion(mine, join(folder, 'old')), undefined);
  writeFileSync(join(folder, 'old/apps/relay/main.ts'), '');
  assert.is(ofVersion(mine, join(folder, 'old'))!.args.at(-1), join(folder, 'old/apps/relay/main.ts'));
});

test.run();
