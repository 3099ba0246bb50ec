import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { lookupFields, packLookup, type NewLookup } from './script-protocol.ts';
import { packRecord, recordFields } from '../stores/records.ts';
import { makeLookupCache, type Asked } from './lookup-cache.ts';

const MOST_BYTES = 100_000;
const asked = (teamId: string, question: string): Asked => ({ teamId, question, keyHash: 'hash' });

test('a team that asks something new each time makes nobody else ask again', () => {
  const cache = makeLookupCache(MOST_BYTES);
  const good = asked('good', 'question');
  const kept = cache.add(good, 1, newLookup(), 0);
  for (let i = 0; i < 1_000; i++) cache.add(asked('hostile', `question ${i} ${'x'.repeat(500)}`), 1, newLookup(), 0);
  assert.is(cache.get(good), kept);
  assert.ok(cache.bytes() <= MOST_BYTES, `${cache.bytes()} bytes`);
});

test('a lookup answers no other question and no other team; what is replaced or removed takes no bytes', () => {
  const cache = makeLookupCache(MOST_BYTES);
  const one = asked('team', 'question');
  cache.add(one, 1, newLookup(), 0);
  for (const other of [asked('another', 'question'), asked('team', 'another')]) assert.is(cache.get(other), undefined);
  const bytes = cache.bytes();
  cache.add(one, 1, newLookup(), 0);
  assert.is(cache.bytes(), bytes);
  cache.remove(one);
  cache.remove(one);
  assert.equal([cache.get(one), cache.bytes()], [undefined, 0]);
});

function newLookup(): NewLookup {
  const emptyKey = Object.fromEntries(recordFields.key.map((name) => [name, '1'])) as Parameters<
    typeof packRecord<'key'>
  >[1];
  const emptyLookup = Object.fromEntries(lookupFields.map((name) => [name, '']));
  return {
    group: '0',
    lookup: packLookup(emptyLookup as Parameters<typeof packLookup>[0]),
    keyRecord: packRecord('key', emptyKey),
    billingRecord: '',
    scopes: [''],
  };
}
