import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { renderReadme } from './readme.ts';

test('the tables of the README are those of the code (npm run readme writes them)', () => {
  const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
  assert.is(renderReadme(readme), readme);
});

test.run();
