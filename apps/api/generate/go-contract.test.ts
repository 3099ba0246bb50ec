import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { goFile, renderGoContract, type GoFile } from './go-contract.ts';

test("the Go client's types and operations match the OpenAPI document (npm run client writes them)", () => {
  for (const [name, text] of Object.entries(renderGoContract())) {
    const found = readFileSync(goFile(name as GoFile), 'utf8');
    assert.ok(found === text, `clients/go/${name} is out of date: npm run client`);
  }
});
