import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkJsonObject } from './validate.ts';

const limits = { maxBytes: 200, maxDepth: 3 };

test('what is no object, names that reach a prototype at any depth, and what is too large or too deep is refused', () => {
  const tooDeep = 'must be nested at most 3 deep';
  const cases: [value: unknown, problem?: string][] = [
    ...[undefined, null, 1, 'text', true, [], [{}]].map((value): [unknown, string] => [value, 'must be a JSON object']),
    ...['__proto__', 'constructor', 'prototype'].flatMap((name) =>
      [`{"${name}":1}`, `{"a":{"${name}":{}}}`, `{"a":[{"${name}":null}]}`].map((text): [unknown, string] => [
        JSON.parse(text),
        `must not have a field named ${name}`,
      ]),
    ),
    [{ proto: 1, a: '__proto__' }],
    [{ a: 'x'.repeat(192) }],
    [{ a: 'x'.repeat(193) }, 'must be at most 200 bytes as JSON, and is 201'],
    [{ a: 'é'.repeat(97) }, 'must be at most 200 bytes as JSON, and is 202'],
    [{ a: { b: { c: 1 } } }],
    [{ a: { b: { c: {} } } }, tooDeep],
    [{ a: [[[]]] }, tooDeep],
    [JSON.parse(`{"a":${'['.repeat(30_000)}${']'.repeat(30_000)}}`), tooDeep],
  ];
  for (const [i, [value, problem]] of cases.entries())
    assert.is(checkJsonObject(value, limits), problem, `${i} ${JSON.stringify(value)?.slice(0, 60)}`);
});

test('an accepted value survives a round trip through JSON unchanged', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 3 }), (text) => {
      const value: unknown = JSON.parse(text);
      if (checkJsonObject(value, { maxBytes: 4096, maxDepth: 5 }) !== undefined) return;
      assert.equal(JSON.parse(JSON.stringify(value)), value);
    }),
  );
  assert.match(checkJsonObject(JSON.parse('{"a":1e400}'), limits)!, 'beyond the range');
});
