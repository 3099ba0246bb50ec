import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../../shared/contract/errors.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';
import { formats } from '../../../shared/contract/validate.ts';
import { portalRoutes, routes as ofClients } from '../routes/index.ts';

const routes = [...ofClients, ...portalRoutes];
const world = await makeWorld();
const document = (await world.call('get', '/openapi.json')).body;

const ajv = new Ajv2020({ strict: false, allErrors: true, formats });

test('describes every operation, with its permission, its answers and every error that it may give', () => {
  for (const { method, path, permission, portal, status = 200 } of routes) {
    const operation = document.paths[path][method];
    const where = `${method} ${path}`;
    assert.is(operation['x-permission'], permission, where);
    assert.ok(operation.responses[status].content['application/json'].example, where);
    const statuses = permission || portal ? [400, 401, 403, 408, 431, 500, 503] : [400, 408, 431, 500, 503];
    for (const code of statuses) assert.ok(operation.responses[code], `${where} ${code}`);
    for (const [code, { content }] of Object.entries<any>(operation.responses)) {
      if (Number(code) < 400) continue;
      for (const name of Object.keys(content['application/json'].examples)) {
        assert.is(Math.floor(errors[name as keyof typeof errors][0] / 100), Number(code), `${where} ${name}`);
      }
    }
  }
  assert.equal(
    Object.keys(document.paths).filter((path) => !routes.some((route) => route.path === path)),
    ['/healthz', '/readyz', '/servingz', '/metrics', '/openapi.json'],
  );
});

test('no two errors have one code', () => {
  const codes = Object.values(errors).map(([code]) => code);
  assert.equal(
    codes.filter((code, i) => codes.indexOf(code) !== i),
    [],
  );
});

test('every example fits its schema', () => {
  let examples = 0;
  const { components } = document;
  const validators = new Map<string, ValidateFunction>();
  const check = (schema: object, example: unknown, where: string) => {
    const text = JSON.stringify(schema);
    // The errors of all operations have one schema.
    const isValid = validators.getOrInsertComputed(text, () => ajv.compile({ ...schema, components }));
    assert.ok(isValid(example), `${where}: ${ajv.errorsText(isValid.errors)}`);
    examples += 1;
  };
  for (const [path, methods] of Object.entries<any>(document.paths)) {
    for (const [method, { parameters = [], requestBody, responses }] of Object.entries<any>(methods)) {
      const where = `${method} ${path}`;
      for (const { schema, example } of parameters) if (example !== undefined) check(schema, example, where);
      for (const { content = {} } of [requestBody ?? {}, ...Object.values<any>(responses)]) {
        for (const { schema, example, examples: named = {} } of Object.values<any>(content)) {
          if (example !== undefined) check(schema, example, where);
          for (const name of Object.keys(named)) check(schema, document.components.examples[name].value, where);
        }
      }
    }
  }
  assert.ok(examples > 500, `only ${examples} were found`);
});

test('no answer allows a field that is not described', () => {
  const open: string[] = [];
  const look = (schema: any, where: string): void => {
    if (schema.type === 'object' && schema.additionalProperties !== false) open.push(where);
    for (const [name, inner] of Object.entries<any>(schema.properties ?? {})) look(inner, `${where}.${name}`);
    if (schema.items) look(schema.items, `${where}[]`);
    for (const one of schema.anyOf ?? []) look(one, where);
  };
  for (const { method, path, response } of routes) look(response, `${method} ${path}`);
  // Objects of the client's own are answered as they are; before and after are answers of other operations.
  const free = open.filter((where) => !/\.(metadata|payload|before|after)$/.test(where));
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
