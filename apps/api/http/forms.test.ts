import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { csv } from './forms.ts';

test('a field with a comma, a quote, a line break or the separator of another locale is quoted; a spreadsheet runs none as a formula, and amounts stay numbers', () => {
  for (const [line, field] of [
    ['"x,y"', 'x,y'],
    ['"say ""no"""', 'say "no"'],
    ['"two\nlines"', 'two\nlines'],
    ['plain ü', 'plain ü'],
    ['"a;b"', 'a;b'],
    ['"c\td"', 'c\td'],
    ['";"', ';'],
    ['"a;\'=1+1;\'-2"', 'a;=1+1;-2'],
    ['"\'\t=1"', '\t=1'],
    ['"\'=HYPERLINK(""x"",1)"', '=HYPERLINK("x",1)'],
    ...['=1+1', '+SUM(A1)', '-A1', '@cmd', '＝1+1', '-', '+5'].map((formula) => [`'${formula}`, formula] as const),
    ...['-1.5', '-0.000001', '12', 'a=b', ''].map((amount) => [amount, amount] as const),
  ] as const)
    assert.is(csv(['a', 'b'], [[field, -2.5]]), `a,b\r\n${line},-2.5\r\n`);
});
