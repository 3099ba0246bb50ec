import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { csv } from './forms.ts';

test('a field with a comma, a quote or a line break is quoted', () => {
  const text = csv(
    ['a', 'b'],
    [
      ['x,y', 1],
      ['say "no"', -2.5],
      ['two\nlines', ''],
      ['plain ü', 0],
    ],
  );
  assert.is(text, 'a,b\r\n"x,y",1\r\n"say ""no""",-2.5\r\n"two\nlines",\r\nplain ü,0\r\n');
});

test('a field with the separator of another locale is quoted, and nothing after the separator runs as a formula', () => {
  assert.is(csv(['n', 'm'], [['a;b', 'c\td']]), 'n,m\r\n"a;b","c\td"\r\n');
  assert.is(csv(['n', 'm'], [['x', 'a;=1+1;-2']]), 'n,m\r\nx,"a;\'=1+1;\'-2"\r\n');
  assert.is(csv(['n'], [[';']]), 'n\r\n";"\r\n');
});

test('a spreadsheet runs no field as a formula, and amounts stay numbers', () => {
  for (const name of ['=1+1', '+SUM(A1)', '-A1', '@cmd', '＝1+1', '-', '+5']) {
    assert.is(csv(['n'], [[name]]), `n\r\n'${name}\r\n`);
  }
  assert.is(csv(['n'], [['\t=1']]), 'n\r\n"\'\t=1"\r\n');
  assert.is(csv(['n'], [['=HYPERLINK("x",1)']]), 'n\r\n"\'=HYPERLINK(""x"",1)"\r\n');
  for (const amount of ['-1.5', '-0.000001', '12', 'a=b']) assert.is(csv(['n'], [[amount]]), `n\r\n${amount}\r\n`);
});
