import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openApi, serversOf } from '../../../shared/contract/openapi.ts';
import { verifyOperation } from '../../../shared/verification/operation.ts';
import { gatewayPaths } from '../../verify/gateway/openapi.ts';
import { routes } from '../routes/index.ts';

const documents = {
  api: openApi(routes, serversOf('https://api.keytally.dev', 'https://verify.keytally.dev')),
  verify: openApi([verifyOperation], [{ url: 'https://verify.keytally.dev', description: 'Verify' }], gatewayPaths),
};

test('an outside linter finds no error and nothing to warn of', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'openapi-'));
  try {
    for (const [name, document] of Object.entries(documents))
      await writeFile(join(folder, `${name}.json`), JSON.stringify(document));
    const redocly = join(import.meta.dirname, '../../../node_modules/@redocly/cli/bin/cli.js');
    const names = Object.keys(documents).map((name) => `${name}.json`);
    // It would ask its maker for a newer version.
    const env = { ...process.env, REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', REDOCLY_TELEMETRY: 'off' };
    const { stderr } = await promisify(execFile)(process.execPath, [redocly, 'lint', '--max-problems=1000', ...names], {
      cwd: folder,
      env,
    });
    assert.match(stderr, /Woohoo! Your API descriptions are valid/);
    assert.not.match(stderr, /warn/i);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('bodies, answers and what they are made of are named types', () => {
  const { schemas } = documents.api.components;
  for (const name of ['ApiKey', 'BillingRecord', 'Decision', 'Error', 'UsageRow', 'Verification', 'Workspace'])
    assert.ok(schemas[name], name);
  const unnamed = Object.values(documents.api.paths)
    .flatMap((methods) => Object.values<any>(methods))
    .flatMap(({ operationId, requestBody, responses, tags }) =>
      [requestBody, ...Object.values<any>(responses)].map((one) => ({
        operationId,
        tags,
        schema: one?.content?.['application/json']?.schema,
      })),
    )
    .filter(({ schema, tags }) => schema && !schema.$ref && !tags.includes('Probes'));
  assert.equal(unnamed, []);
});

test('fixed values have a type', () => {
  const untyped: string[] = [];
  const look = (node: unknown, place: string): void => {
    if (typeof node !== 'object' || node === null) return;
    if ('enum' in node && !('type' in node)) untyped.push(place);
    for (const [name, inner] of Object.entries(node)) look(inner, `${place}/${name}`);
  };
  look(documents, '');
  assert.equal(untyped, []);
});
