import { execFile } from 'node:child_process';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../../shared/contract/errors.ts';
import { openApi, serversOf } from '../../../shared/contract/openapi.ts';
import { clientProbePaths } from '../../../shared/contract/probe-paths.ts';
import { errorSchema } from '../../../shared/contract/schemas.ts';
import { webhookEventTypes } from '../../../shared/contract/webhook-event-types.ts';
import { verifyOperation } from '../../../shared/verification/operation.ts';
import { gatewayPaths } from '../../verify/gateway/openapi.ts';
import { portalRoutes, routes as ofClients, signedRoutes } from '../routes/index.ts';

// The documents of the api and of verify. That each server serves its own, and answers as it says: tests/helpers/contract.ts.

const routes = [...ofClients, ...portalRoutes, ...signedRoutes];
const servers = serversOf('https://api.keytally.dev', 'https://verify.keytally.dev');
const documents: Record<'api' | 'verify', any> = {
  api: openApi(routes, servers, {}, clientProbePaths(undefined)),
  verify: openApi([verifyOperation], [{ url: 'https://verify.keytally.dev', description: 'Verify' }], gatewayPaths),
};
const { paths, webhooks, components } = documents.api;

test('an outside linter finds no error and nothing to warn of, as of an example that does not fit its schema', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'openapi-'));
  for (const [name, document] of Object.entries(documents))
    await writeFile(join(folder.path, `${name}.json`), JSON.stringify(document));
  const redocly = join(import.meta.dirname, '../../../node_modules/@redocly/cli/bin/cli.js');
  const names = Object.keys(documents).map((name) => `${name}.json`);
  // It would ask its maker for a newer version.
  const env = { ...process.env, REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', REDOCLY_TELEMETRY: 'off' };
  const command = [redocly, 'lint', '--max-problems=1000', ...names];
  const { stderr } = await promisify(execFile)(process.execPath, command, { cwd: folder.path, env });
  assert.match(stderr, /Woohoo! Your API descriptions are valid/);
  assert.not.match(stderr, /warn/i);
});

test('describes every operation, with its permission, its answers and every error that it may give', () => {
  for (const { method, path, permission, portal, status = 200 } of routes) {
    const operation = paths[path][method];
    const where = `${method} ${path}`;
    assert.is(operation['x-permission'], permission, where);
    assert.ok(operation.responses[status].content['application/json'].example, where);
    const statuses = permission || portal ? [400, 401, 403, 408, 431, 500, 503] : [400, 408, 431, 500, 503];
    for (const code of statuses) assert.ok(operation.responses[code], `${where} ${code}`);
    for (const [code, { content }] of Object.entries<any>(operation.responses)) {
      if (Number(code) < 400) continue;
      for (const name of Object.keys(content['application/json'].examples))
        assert.is(Math.floor(errors[name as keyof typeof errors][0] / 100), Number(code), `${where} ${name}`);
    }
  }
  const others = Object.keys(paths).filter((path) => !routes.some((route) => route.path === path));
  assert.equal(others, ['/healthz', '/readyz', '/servingz', '/metrics', '/openapi.json']);
});

test('describes every type of event that webhooks are told, and each parameter', () => {
  assert.equal(Object.keys(webhooks), [...webhookEventTypes, 'webhook.test']);
  assert.is(documents.verify.webhooks, undefined);
  const parameters = operations().flatMap(({ where, parameters = [] }) =>
    parameters.map((one: any) => ({ ...one, where })),
  );
  assert.ok(parameters.length > 200);
  const without = parameters.filter(({ description }) => !description).map(({ where, name }) => `${where} ${name}`);
  assert.equal(without, []);
});

test('no two errors have one code', () => {
  const codes = Object.values(errors).map(([code]) => code);
  assert.is(new Set(codes).size, codes.length);
});

test('bodies, answers and what they are made of are named types', () => {
  for (const name of ['ApiKey', 'BillingRecord', 'Decision', 'Error', 'UsageRow', 'Verification', 'Workspace'])
    assert.ok(components.schemas[name], name);
  for (const { where, requestBody, responses, tags } of operations())
    for (const one of tags.includes('Probes') ? [] : [requestBody, ...Object.values<any>(responses)]) {
      const schema = one?.content?.['application/json']?.schema;
      assert.ok(!schema || schema.$ref, where);
    }
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

test('no answer allows a field that is not described', () => {
  const answered = routes.flatMap(({ method, path, response }) => schemasIn(response, `${method} ${path}`));
  const open = answered.filter(({ schema }) => schema.type === 'object' && schema.additionalProperties !== false);
  // Objects of the client's own are answered as they are; before and after are answers of other operations, data is an event.
  const free = open.filter(
    ({ where }) => !/\.(metadata|payload|data|before|after|externalIds|eventNames)$/.test(where),
  );
  assert.equal(free, []);
});

test('every list that is read page by page answers one array and nextCursor', () => {
  const lists = routes.filter(({ query }) => query && 'cursor' in query.properties);
  assert.ok(lists.length > 4);
  for (const { method, path, query, response } of lists) {
    assert.ok('limit' in query.properties, `${method} ${path}`);
    const fields = Object.entries<any>(response.properties).map(([name, { type }]) => (type === 'array' ? type : name));
    // Usage says besides which of its rows may still change.
    const paging = fields.filter((field) => field !== 'openFrom');
    assert.equal(paging, ['array', 'nextCursor'], `${method} ${path}`);
    assert.equal(response.required.length, 1, `${method} ${path}: the last page has no nextCursor`);
  }
});

test('every array, text and open object of every operation has a bound', () => {
  const looked = routes.flatMap(({ method, path, params, query, body, response }) =>
    Object.entries({ params, query, body, response }).flatMap(([part, schema]) =>
      schema ? schemasIn(schema, `${method} ${path} ${part}`) : [],
    ),
  );
  const all = [...looked, ...schemasIn(errorSchema, 'error')];
  const unbounded = all.flatMap(({ schema, where }) => lacksOf(schema).map((what) => `${where}: ${what}`));
  assert.equal(unbounded, []);
});

function operations(): any[] {
  return Object.entries<any>(paths).flatMap(([path, methods]) =>
    Object.entries<any>(methods).map(([method, operation]) => ({ where: `${method} ${path}`, ...operation })),
  );
}

/** A schema with all that it is made of, and where each of them stands. */
function schemasIn(schema: any, where: string): { schema: any; where: string }[] {
  const properties = Object.entries<any>(schema.properties ?? {});
  return [
    { schema, where },
    ...properties.flatMap(([name, property]) => schemasIn(property, `${where}.${name}`)),
    ...(schema.type === 'array' ? schemasIn(schema.items ?? {}, `${where}[]`) : []),
    ...[...(schema.anyOf ?? []), ...(schema.allOf ?? []), ...(schema.oneOf ?? [])].flatMap((one) =>
      schemasIn(one, where),
    ),
  ];
}

const boundedFormats = new Set(['date', 'date-time', 'ip']);

function lacksOf(schema: any): string[] {
  const types = [schema.type ?? []].flat();
  const isPart = schema.anyOf || schema.allOf || schema.oneOf || 'enum' in schema || 'const' in schema;
  const open = schema.additionalProperties !== false || schema.patternProperties;
  return [
    types.length === 0 && !isPart && 'any value',
    types.includes('string') && !isBoundedText(schema) && 'a string without maxLength',
    types.includes('array') && !(schema.maxItems >= 0) && 'an array without maxItems',
    types.includes('object') &&
      open &&
      !(schema.maxProperties >= 0 && schema['x-limits']) &&
      'an open object without maxProperties and x-limits',
  ].filter((one) => typeof one === 'string');
}

function isBoundedText({ maxLength, pattern, format, ...rest }: any): boolean {
  if (maxLength >= 0 || 'enum' in rest || 'const' in rest || boundedFormats.has(format)) return true;
  // Anchored at both ends, and nothing in it repeats without end.
  return /^\^.*\$$/.test(pattern ?? '') && !/(?<!\\)[*+]|\{\d+,\}/.test(pattern.replace(/\[[^\]]*\]/g, '[]'));
}
