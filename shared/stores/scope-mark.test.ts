import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { oldMegabytesOf } from '../../tests/helpers/old-objects.ts';
import { packWantedScopes, scopeMark } from './scope-mark.ts';

const test = suite('marks of scopes');

test('wanted scopes are packed in one order, each once with all of its flags', () => {
  const [a, b] = ['a', 'b'].map(scopeMark);
  const both = [`${a}C`, `${b}H`].toSorted().join('');
  const [read, create, del] = [
    { representation: 'a', read: true },
    { representation: 'a', create: true },
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

test('scopes that nobody asked for before do not stay until all garbage is collected', () => {
  const ask = (name: string) => {
    for (let n = 0; n < 1_000; n++)
      packWantedScopes(Array.from({ length: 50 }, (_, i) => ({ representation: `${name} ${n} ${i}`, read: true })));
  };
  ask('the first, some of which it remembers');
  const grown = oldMegabytesOf(() => ask('once'));
  assert.ok(grown < 1, `${grown} MB`);
});

test.run();
