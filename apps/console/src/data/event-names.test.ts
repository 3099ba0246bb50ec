import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { changedNames, namesIn, textOfNames } from './event-names.ts';

test('event names that nobody edited are not written, and no text loses one', () => {
  const names = { tokens: 'llm_tokens', internal: null };
  assert.is(textOfNames(names), 'tokens=llm_tokens, internal=');
  assert.equal(changedNames(names, 'tokens=llm_tokens, internal='), {});
  assert.equal(changedNames(names, 'tokens=llm, a b= c ,'), { eventNames: { tokens: 'llm', 'a b': 'c' } });
  assert.equal(changedNames(names), { eventNames: {} });
  for (const odd of [{ 'in,out': 'llm' }, { a: 'b, c=d' }, { 'a=b': null }, { a: 'b ' }]) {
    assert.equal(changedNames(odd, textOfNames(odd).trim()), {});
    assert.throws(() => changedNames(odd, 'x=y'), /stay as they were/);
  }
  for (const text of ['tokens:llm_tokens', 'a=b=c', 'a=b, c']) assert.throws(() => namesIn(text), /stay as they were/);
});
