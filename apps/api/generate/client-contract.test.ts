import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { renderContract, renderPortalContract } from './client-contract.ts';
import { renderPythonContract } from './python-contract.ts';

test("the client's types match the OpenAPI document (npm run client writes them)", async () => {
  const contract = readFileSync(new URL('../../../clients/node/contract.ts', import.meta.url), 'utf8');
  assert.ok((await renderContract()) === contract, 'clients/node/contract.ts is out of date: npm run client');
});

test("the types of the portal's page match it, too", async () => {
  const file = 'apps/console/src/data/portal-contract.ts';
  assert.ok(readFileSync(file, 'utf8') === (await renderPortalContract()), `${file} is out of date: npm run client`);
});

test("the Python client's types and operations match it, too", () => {
  for (const [name, text] of Object.entries(renderPythonContract())) {
    const file = `clients/python/keytally/${name}`;
    assert.ok(readFileSync(file, 'utf8') === text, `${file} is out of date: npm run client`);
  }
});
