import { test } from 'uvu';
import { checkPlace } from './copy.ts';
import { mutants, readFaults } from './list.ts';

test('every fault that is put in on purpose stands in the product', () => {
  const rules = readFaults(new URL('../simulator/broken-rules.txt', import.meta.url).pathname);
  for (const one of [...mutants, ...rules]) checkPlace(one.name, one);
});
