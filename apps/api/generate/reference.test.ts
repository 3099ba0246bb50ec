import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { helmSchemaFile, renderHelmSchema } from './helm-schema.ts';
import { referenceFile, referencePages, renderReference } from './reference.ts';

for (const page of referencePages) {
  test(`docs/reference/${page}.md says what the code says (npm run reference writes it)`, async () => {
    assert.is(await renderReference(page), readFileSync(referenceFile(page), 'utf8'));
  });
}

test('the chart takes the variables that its programs read (npm run reference writes its schema)', () => {
  assert.is(renderHelmSchema(), readFileSync(helmSchemaFile, 'utf8'));
});
