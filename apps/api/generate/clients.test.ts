import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { renderClients } from './clients.ts';

test('what each client and the page of the portal have of the contract is what the OpenAPI document says', async () => {
  for (const [path, text] of Object.entries(await renderClients()))
    assert.ok(readFileSync(path, 'utf8') === text, `${path} is out of date: npm run client`);
});
