import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { packWantedScopes, scopeMark } from './scope-mark.ts';

test('wanted scopes are packed in one order, each once with all of its flags', () => {
  const [a, b] = ['a', 'b'].map(scopeMark);
  const both = [`${a}C`, `${b}H`].toSorted().join('');
  const ofA = { representation: 'a' };
  const [read, create, del] = [
    { ...ofA, read: true },
    { ...ofA, create: true },
    { representation: 'b', del: true },
  ];
  for (const scopes of [
    [read, create, del],
    [del, create, read],
    [create, del, read, read, create],
  ])
    assert.is(packWantedScopes(scopes), both);
  assert.equal([packWantedScopes([]), packWantedScopes([del])], ['', `${b}H`]);
});
