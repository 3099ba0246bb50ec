import type { TSchema } from 'typebox';
import { errors, type ErrorName } from './errors.ts';
import { exampleOf } from './example.ts';
import { errorsOf, errorsOfAll } from './operation-errors.ts';
import { probePaths } from './probe-paths.ts';
import { withComponents } from './components.ts';
import { tags, type Operation, type Tag } from './route.ts';
import { errorSchema } from './schemas.ts';
import { describeWebhooks } from './webhook-events.ts';

/** Where clients reach what a document describes. */
export type DocumentServer = { url: string; description: string };

/** The api, and verify where its address is known. Either serves verifications; all else is the api's. */
export function serversOf(apiUrl: string, verifyUrl: string): DocumentServer[] {
  const api = { url: apiUrl, description: 'The api, for all operations' };
  return verifyUrl ? [api, { url: verifyUrl, description: 'Verify, for verifications alone' }] : [api];
}

/** The OpenAPI 3.1 document of operations, made from the schemas that validate their requests; `more` paths are added. */
export function openApi(
  operations: readonly Operation[],
  servers: readonly DocumentServer[],
  more: Paths = {},
  probes = probePaths,
) {
  const paths: Paths = { ...more };
  for (const operation of operations) (paths[operation.path] ??= {})[operation.method] = describe(operation);
  Object.assign(paths, Object.fromEntries(Object.entries(probes).map(withCommonFailures)));
  // Of the server where webhooks are made.
  const webhooks = operations.some(({ tag }) => tag === 'Webhooks') ? describeWebhooks() : undefined;
  const { value: described, schemas } = withComponents({ paths, ...(webhooks && { webhooks }) });
  const { paths: value } = described;
  const used = new Set<string>(
    Object.values(value).flatMap((methods) => Object.values(methods).flatMap(({ tags }) => tags)),
  );
  return {
    openapi: '3.1.0',
    info: {
      title: 'keytally',
      version: '1.0.0',
      description: 'API keys, limits, billing and usage metering for companies that sell an API.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers,
    tags: Object.entries(tags)
      .filter(([name]) => used.has(name))
      .map(([name, description]) => ({ name, description })),
    ...described,
    components: {
      securitySchemes: {
        accessToken: { type: 'http', scheme: 'bearer', description: 'An access token of your team' },
        ...(operations.some(({ portal }) => portal) && { portalSession }),
      },
      schemas,
      headers: { 'X-Request-Id': header('the X-Request-Id of the request, or a new one') },
      examples: errorExamples(value),
    },
  };
}

const portalSession = {
  type: 'apiKey',
  in: 'cookie',
  name: 'keytally-portal',
  description:
    'A session of the portal, which a link token begins at /portal; over TLS the cookie is __Host-keytally-portal. It counts for pages of its own origin alone',
};

type Paths = Record<string, Record<string, { tags: Tag[] }>>;

function describe(operation: Operation) {
  const { method, tag, operationId, summary, description, permission, status = 200 } = operation;
  const { params, query, body, writes } = operation;
  const name = nameOf(operation);
  return {
    tags: [tag],
    operationId,
    summary,
    description,
    security: permission ? [{ accessToken: [] }] : operation.portal ? [{ portalSession: [] }] : [],
    ...(permission && { 'x-permission': permission }),
    ...(operation.alsoPermission && { 'x-also-permission': operation.alsoPermission }),
    parameters: [
      ...parameters('path', params, name),
      ...parameters('query', query, name),
      ...(operation.signed ? [stripeSignature] : []),
      ...(writes && method === 'post' && !operation.signed
        ? [idempotencyKey('for 24 hours a repeat gets the first answer again', operation.idempotencyKeyRequired)]
        : []),
      ...(operation.idempotent ? [idempotencyKey('repeats within 60 seconds of a VALID are debited once')] : []),
      ...(operation.patient ? [patience] : []),
      requestId,
    ],
    ...(body && {
      requestBody: {
        required: !operation.bodyOptional,
        content: { 'application/json': withExample(titled(operationId, 'Request', body), `${name}: body`) },
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

/**
 * What an operation takes or answers under its name, unless it has one of its own: `importKeys` answers an ImportKeysResult. An answer
 * of one named thing is called by that, for all operations alike.
 */
export function titled(operationId: string, what: 'Request' | 'Result', schema: TSchema): TSchema {
  const [first, ...more] = Object.values(
    (schema as { properties?: Record<string, { title?: string }> }).properties ?? {},
  );
  const only = what === 'Result' && more.length === 0 ? first?.title : undefined;
  return { title: (only ?? operationId.charAt(0).toUpperCase() + operationId.slice(1)) + what, ...schema };
}

function nameOf({ method, path }: Operation): string {
  return `${method} ${path}`;
}

function success(operation: Operation) {
  const { status, response, alternative, file } = operation;
  return {
    description: status === 201 ? 'Created' : 'OK',
    headers: {
      ...requestIdHeader,
      ...(alternative && { Vary: header('Accept, which selects the form of the answer') }),
      ...(operation.cacheable && cacheHeaders),
    },
    content: {
      'application/json': withExample(
        titled(operation.operationId, 'Result', response),
        `${nameOf(operation)}: response`,
      ),
      ...(alternative && {
        [alternative.type]: {
          schema: { type: 'string', description: alternative.description },
          example: alternative.example,
        },
      }),
      ...(file && {
        [file.type]: { schema: { type: 'string', format: 'binary', description: file.description } },
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
  const examples = Object.fromEntries(names.map((name) => [name, { $ref: `#/components/examples/${name}` }]));
  return {
    description: names.map((name) => `${errors[name][0]}: ${errors[name][1]}`).join('\n\n'),
    headers: {
      ...requestIdHeader,
      ...(status === 401 && { 'WWW-Authenticate': header('Bearer') }),
      ...((status === 503 || status === 429) && { 'Retry-After': header('seconds to wait before repeating') }),
      ...(status === 503 && { 'Retry-After-Ms': header('the same in milliseconds, where less is enough') }),
    },
    content: { 'application/json': { schema: errorSchema, examples } },
    'x-error-codes': names.map((name) => errors[name][0]),
  };
}

function errorExamples(paths: Paths) {
  const text = JSON.stringify(paths);
  const used = Object.entries(errors).filter(([name]) => text.includes(`"#/components/examples/${name}"`));
  const requestId = '01a1f8c2-6e2f-7cc3-9b0e-5d1f0a7e4c21';
  const entries = used.map(([name, [code, message]]) => [
    name,
    { summary: name, value: { error: { code, message, requestId } } },
  ]);
  return Object.fromEntries(entries);
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

function idempotencyKey(what: string, required = false) {
  return {
    name: 'Idempotency-Key',
    in: 'header',
    required,
    description: `Makes repeating the request safe: ${what}.`,
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  };
}

const patience = {
  name: 'X-Keytally-Timeout-Ms',
  in: 'header',
  required: false,
  description:
    'How many milliseconds the client waits for this answer: what could only be answered later is not decided, and costs nothing.',
  schema: { type: 'string', pattern: String.raw`^[1-9]\d{0,6}$` },
};

const stripeSignature = {
  name: 'Stripe-Signature',
  in: 'header',
  required: true,
  description: 'The time, and signatures of it and the body, as Stripe makes them.',
  schema: { type: 'string', maxLength: 1024 },
};

const requestId = {
  name: 'X-Request-Id',
  in: 'header',
  required: false,
  description: 'Returned in the answer and written to every log line of the request; generated where it is missing.',
  schema: { type: 'string', pattern: '^[!-~]{1,128}$' },
};

function parameters(place: 'path' | 'query', schema: Operation['params'], operation: string) {
  const required = new Set<string>(schema?.required ?? []);
  const properties = Object.entries((schema?.properties ?? {}) as Record<string, TSchema & { description?: string }>);
  return properties.map(([name, { description, ...property }]) => ({
    name,
    in: place,
    required: place === 'path' || (required.has(name) && !('default' in property)),
    description,
    schema: property,
    // No example in a query: /docs would fill it in, and readers who try the operation would send it unawares.
    ...(place === 'path' && { example: exampleOf(property, `${operation}: ${name}`) }),
  }));
}
