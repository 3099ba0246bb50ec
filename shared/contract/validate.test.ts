import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkJsonObject } from './validate.ts';

const limits = { maxBytes: 200, maxDepth: 3 };

test('a value that is not an object is refused', () => {
  for (const value of [undefined, null, 1, 'text', true, [], [{}]]) {
    assert.is(checkJsonObject(value, limits), 'must be a JSON object');
  }
});

test('names that reach a prototype are refused at any depth', () => {
  for (const name of ['__proto__', 'constructor', 'prototype']) {
    for (const text of [`{"${name}":1}`, `{"a":{"${name}":{}}}`, `{"a":[{"${name}":null}]}`]) {
      assert.is(checkJsonObject(JSON.parse(text), limits), `must not have a field named ${name}`);
    }
  }
  assert.is(checkJsonObject({ proto: 1, a: '__proto__' }, limits), undefined);
});

test('size and depth are limited exactly', () => {
  assert.is(checkJsonObject({ a: 'x'.repeat(192) }, limits), undefined);
  assert.is(checkJsonObject({ a: 'x'.repeat(193) }, limits), 'must be at most 200 bytes as JSON, and is 201');
  assert.match(checkJsonObject({ a: 'é'.repeat(97) }, limits)!, 'and is 202');
  assert.is(checkJsonObject({ a: { b: { c: 1 } } }, limits), undefined);
  assert.is(checkJsonObject({ a: { b: { c: {} } } }, limits), 'must be nested at most 3 deep');
  assert.is(checkJsonObject({ a: [[[]]] }, limits), 'must be nested at most 3 deep');
  const deep: unknown = JSON.parse(`{"a":${'['.repeat(30_000)}${']'.repeat(30_000)}}`);
  assert.is(checkJsonObject(deep, limits), 'must be nested at most 3 deep');
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
