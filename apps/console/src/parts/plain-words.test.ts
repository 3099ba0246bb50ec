import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { fieldOf, plainWords } from './plain-words.ts';

test('what the api says of a field is told in plain words, once, without its patterns and pointers', () => {
  for (const [as, said, plain] of [
    ['credits', 'must be integer,string', 'Write an amount such as 1000 or 0.25, with at most six decimals.'],
    [
      'credits',
      'must match pattern "^\\d{1,10}(\\.\\d{1,6})?$"',
      'Write an amount such as 1000 or 0.25, with at most six decimals.',
    ],
    ['ticks', 'must NOT have fewer than 1 items', 'Choose at least one.'],
    ['moment', 'must be a time in the future, in Unix milliseconds', 'Choose a time in the future.'],
    ['text', 'must NOT have more than 128 characters', 'Write at most 128 characters.'],
    ['number', 'must be <= 100000', 'Write at most 100000.'],
    [
      'text',
      'must match format "ip-or-cidr"',
      'Write addresses such as 203.0.113.7, or blocks such as 203.0.113.0/24.',
    ],
    ['text', 'must be the IANA name of a time zone', 'It must be the IANA name of a time zone.'],
  ] as const)
    assert.is(plainWords({ as }, said), plain);
});

test('a field is found by the path that the api names, wherever it stands in the request', () => {
  const fields = [{ name: 'name' }, { name: 'limit' }, { name: 'amount', told: ['usedPercent', 'available'] }];
  const found = ['/limits/0/limit', '/name', '/alerts/1/when/usedPercent', 'limit', '/scopes/0'];
  const shown = found.map((path) => fieldOf(fields, path)?.name);
  assert.equal(shown, ['limit', 'name', 'amount', 'limit', undefined]);
});
