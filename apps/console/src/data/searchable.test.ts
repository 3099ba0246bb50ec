import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { searchable } from './searchable.ts';

test('a whole secret is looked for by its masked form, whatever is pasted with it; names and ids are left as they are', () => {
  for (const [text, wanted] of [
    ['key_42scAbcdefghijklmnopqrstuvwxyzy94x', 'key_42sc****y94x'],
    ['a_b2_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1', 'a_b2_17aT****JpQ1'],
    ['sk-proj-AbCdEfGh0123456789xyz', 'sk-p****9xyz'],
    ['key_01m8p9mtkvfjfrbq84ny9qyvry', 'key_01m8p9mtkvfjfrbq84ny9qyvry'],
    ['0b5e2c9e-7c1f-4a57-9d0e-3f1f5d9c2a11', '0b5e2c9e-7c1f-4a57-9d0e-3f1f5d9c2a11'],
    ['northwind-traders-of-the-north-atlantic', 'northwind-traders-of-the-north-atlantic'],
    ['by KEY', 'by KEY'],
    ['Authorization: Bearer key_42scAbcdefghijklmnopqrstuvwxyzy94x', 'key_42sc****y94x'],
    [' {"key": "key_42scAbcdefghijklmnopqrstuvwxyzy94x"} ', 'key_42sc****y94x'],
    ['https://api.example?key=key_42scAbcdefghijklmnopqrstuvwxyzy94x&a=1', 'key_42sc****y94x'],
    ['Bearer sk-proj-AbCdEfGh0123456789xyz', 'sk-p****9xyz'],
  ] as const)
    assert.is(searchable(text), wanted);
});
