import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from '../values/key-text.ts';
import { makeAuthenticate } from './access-token.ts';

const test = suite('callers of access tokens');
const caller = { tokenId: 'tok_1', teamId: 'team_1', permissions: new Set<string>(), workspaceIds: undefined };

test('a caller is remembered by a header of usual length alone, and a longer one is read all the same', async () => {
  let loaded = 0;
  const load = () => Promise.resolve((loaded++, caller));
  const authenticate = makeAuthenticate(load, () => {});
  const token = makeKeyText('kt', 1);
  for (let i = 0; i < 3; i++) assert.is(await authenticate(`Bearer ${token}`), caller);
  assert.is(loaded, 1);
  // Each of these is another text, and would be remembered with its 16 KB.
  for (let i = 0; i < 3; i++) assert.is(await authenticate(`Bearer${' '.repeat(16_000)}${token}`), caller);
  assert.is(loaded, 4);
});

test('an unknown token is not remembered, however often it comes', async () => {
  let loaded = 0;
  const load = () => Promise.resolve((loaded++, undefined));
  const authenticate = makeAuthenticate(load, () => {});
  const guess = `Bearer ${makeKeyText('kt', 1)}`;
  for (let i = 0; i < 3; i++) {
    const failed = await authenticate(guess).catch((error: unknown) => error);
    assert.is((failed as Error).message.includes('unknown'), true);
  }
  assert.is(loaded, 3);
});

test.run();
