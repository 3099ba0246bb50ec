import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { renderContract } from './client-contract.ts';

test("the client's types are those of the OpenAPI document (npm run client writes them)", async () => {
  const contract = readFileSync(new URL('../../../clients/node/contract.ts', import.meta.url), 'utf8');
  assert.ok((await renderContract()) === contract, 'it is not up to date: npm run client');
});

test.run();
