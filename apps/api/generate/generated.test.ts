import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { renderClients } from './clients.ts';
import { helmSchemaFile, renderHelmSchema } from './helm-schema.ts';
import { referenceFile, referencePages, renderReference } from './reference.ts';

test('clients, reference pages and the schema of the chart are what the code says (npm run client and npm run reference write them)', async () => {
  const pages = referencePages.map(async (page) => [referenceFile(page), await renderReference(page)] as const);
  const clients = Object.entries(await renderClients());
  for (const [file, text] of [...clients, ...(await Promise.all(pages)), [helmSchemaFile, renderHelmSchema()] as const])
    assert.ok(readFileSync(file, 'utf8') === text, `${String(file)} is out of date`);
});
