import type { TSchema } from 'typebox';
import { errors, type ErrorName } from './errors.ts';
import { exampleOf } from './example.ts';
import { errorsOf, errorsOfAll } from './operation-errors.ts';
import { probePaths } from './probe-paths.ts';
import type { Operation } from './route.ts';
import { errorSchema } from './schemas.ts';

/** The OpenAPI 3.1 document of operations, made from the schemas that validate their requests; `more` paths are added. */
export function openApi(operations: readonly Operation[], serverUrl: string, more: Paths = {}, probes = probePaths) {
  const paths: Paths = { ...more };
  for (const operation of operations) (paths[operation.path] ??= {})[operation.method] = describe(operation);
  return {
    openapi: '3.1.0',
    info: {
      title: 'keytally',
      version: '1.0.0',
      description: 'API keys, limits, billing and usage metering for companies that sell an API.',
    },
    servers: [{ url: serverUrl }],
    tags: [...new Set(operations.map((operation) => operation.tag)), 'Probes'].map((name) => ({ name })),
    paths: { ...paths, ...Object.fromEntries(Object.entries(probes).map(withCommonFailures)) },
    components: {
      securitySchemes: { accessToken: { type: 'http', scheme: 'bearer', description: 'An access token of your team' } },
      schemas: { Error: errorSchema },
      headers: { 'X-Request-Id': header('the X-Request-Id of the request, or a new one') },
      examples: Object.fromEntries(Object.keys(errors).map((name) => [name, errorExample(name as ErrorName)])),
    },
  };
}

type Paths = Record<string, Record<string, unknown>>;

function describe(operation: Operation) {
  const { method, path, tag, summary, permission, status = 200, params, query, body, writes } = operation;
  const name = nameOf(operation);
  return {
    tags: [tag],
    summary,
    operationId: operationId(method, path),
    security: permission ? [{ accessToken: [] }] : [],
    ...(permission && { 'x-permission': permission }),
    parameters: [
      ...parameters('path', params, name),
      ...parameters('query', query, name),
      ...(writes && method === 'post'
        ? [
            {
              ...idempotencyKey('for 24 hours a repeat gets the first answer again'),
              required: operation.idempotencyKeyRequired ?? false,
            },
          ]
        : []),
      ...(operation.idempotent ? [idempotencyKey('repeats within 60 seconds of a VALID are debited once')] : []),
      requestId,
    ],
    ...(body && {
      requestBody: {
        required: !operation.bodyOptional,
        content: { 'application/json': withExample(body, `${name}: body`) },
      },
    }),
    responses: {
      [status]: success(operation),
      ...(operation.cacheable && notModified),
      ...failures(errorsOf(operation)),
    },
  };
}

function withExample(schema: TSchema, where: string) {
  return { schema, example: exampleOf(schema, where) };
}

function nameOf({ method, path }: Operation): string {
  return `${method} ${path}`;
}

function success(operation: Operation) {
  const { status, response, alternative } = operation;
  return {
    description: status === 201 ? 'Created' : 'OK',
    headers: {
      ...requestIdHeader,
      ...(alternative && { Vary: header('Accept, which selects the form of the answer') }),
      ...(operation.cacheable && cacheHeaders),
    },
    content: {
      'application/json': withExample(response, `${nameOf(operation)}: response`),
      ...(alternative && {
        [alternative.type]: {
          schema: { type: 'string', description: alternative.description },
          example: alternative.example,
        },
      }),
    },
  };
}

function withCommonFailures([path, { get }]: [string, (typeof probePaths)[string]]) {
  return [path, { get: { ...get, responses: { ...get.responses, ...failures(errorsOfAll) } } }];
}

/** The error answers, by status. */
export function failures(errorNames: readonly ErrorName[]) {
  const byStatus = Map.groupBy(errorNames, (name) => Math.floor(errors[name][0] / 100));
  return Object.fromEntries([...byStatus].map(([status, names]) => [status, failure(status, names)]));
}

function failure(status: number, names: ErrorName[]) {
  const code = { enum: names.map((name) => errors[name][0]) };
  const schema = {
    allOf: [{ $ref: '#/components/schemas/Error' }, { properties: { error: { properties: { code } } } }],
  };
  const examples = Object.fromEntries(names.map((name) => [name, { $ref: `#/components/examples/${name}` }]));
  return {
    description: names.map((name) => `${errors[name][0]}: ${errors[name][1]}`).join('\n\n'),
    headers: {
      ...requestIdHeader,
      ...(status === 401 && { 'WWW-Authenticate': header('Bearer') }),
      ...((status === 503 || status === 429) && { 'Retry-After': header('seconds to wait before repeating') }),
    },
    content: { 'application/json': { schema, examples } },
  };
}

function errorExample(name: ErrorName) {
  const [code, message] = errors[name];
  return { summary: name, value: { error: { code, message, requestId: '01a1f8c2-6e2f-7cc3-9b0e-5d1f0a7e4c21' } } };
}

const requestIdHeader = { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } };

const cacheHeaders = {
  ETag: header('names this content; a request with it in If-None-Match gets 304 while nothing has changed'),
  'Cache-Control': header('how long caches may keep the answer'),
};
const notModified = { 304: { description: 'Not Modified', headers: { ...requestIdHeader, ...cacheHeaders } } };

function header(description: string) {
  return { description, schema: { type: 'string' } };
}

function idempotencyKey(what: string) {
  return {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description: `Makes repeating the request safe: ${what}.`,
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  };
}

const requestId = {
  name: 'X-Request-Id',
  in: 'header',
  required: false,
  description: 'Returned in the answer and written to every log line of the request; generated where it is missing.',
  schema: { type: 'string', pattern: '^[!-~]{1,128}$' },
};

function parameters(place: 'path' | 'query', schema: Operation['params'], operation: string) {
  const required = new Set<string>(schema?.required ?? []);
  return Object.entries((schema?.properties ?? {}) as Record<string, TSchema>).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || (required.has(name) && !('default' in property)),
    schema: property,
    // No example in a query: /docs would fill it in, and readers who try the operation would send it unawares.
    ...(place === 'path' && { example: exampleOf(property, `${operation}: ${name}`) }),
  }));
}

// `post /api/v1/workspace/{id}/scope` becomes postWorkspaceIdScope.
function operationId(method: string, path: string): string {
  const words = path.replace(/^\/api\/v1/, '').split(/[^A-Za-z0-9]+/);
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}
