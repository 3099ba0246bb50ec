import type { TSchema } from 'typebox';
import { errors } from './errors.ts';
import type { Operation } from './route.ts';
import { errorEnvelope } from './schemas.ts';

/** The OpenAPI 3.1 document of some operations, made from the schemas that validate their requests. */
export function openApi(operations: readonly Operation[], serverUrl: string) {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) (paths[operation.path] ??= {})[operation.method] = describe(operation);
  return {
    openapi: '3.1.0',
    info: {
      title: 'keytally',
      version: '1.0.0',
      description: 'API keys, limits, billing and usage metering for companies that sell an API.',
    },
    servers: [{ url: serverUrl }],
    tags: [...new Set(operations.map((operation) => operation.tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { accessToken: { type: 'http', scheme: 'bearer', description: 'An access token of your team' } },
      schemas: { Error: errorEnvelope },
    },
  };
}

function describe(operation: Operation) {
  const {
    method,
    path,
    tag,
    summary,
    permission,
    status = 200,
    params,
    query,
    body,
    response,
    writes,
    alternative,
  } = operation;
  const answer = status === 201 ? 'Created' : 'OK';
  return {
    tags: [tag],
    summary,
    operationId: operationId(method, path),
    security: permission ? [{ accessToken: [] }] : [],
    ...(permission && { 'x-permission': permission }),
    parameters: [
      ...parameters('path', params),
      ...parameters('query', query),
      ...((writes && method === 'post') || operation.idempotent ? [idempotencyKey] : []),
    ],
    ...(body && {
      requestBody: { required: !operation.bodyOptional, content: { 'application/json': { schema: body } } },
    }),
    responses: {
      [status]: {
        description: answer,
        content: {
          'application/json': { schema: response },
          ...(alternative && {
            [alternative.type]: { schema: { type: 'string', description: alternative.description } },
          }),
        },
      },
      ...Object.fromEntries(errorStatuses(operation).map((code) => [code, errorResponse(code)])),
    },
  };
}

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'Makes repeating the request safe: for 24 hours it gets the first answer again.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};

function parameters(place: 'path' | 'query', schema: Operation['params']) {
  const required = new Set<string>(schema?.required ?? []);
  return Object.entries((schema?.properties ?? {}) as Record<string, TSchema>).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || (required.has(name) && !('default' in property)),
    schema: property,
  }));
}

function errorStatuses({ permission, params, body, writes, alsoAnswers = [] }: Operation): number[] {
  const statuses = [400, 500, 503, ...alsoAnswers];
  if (permission) statuses.push(401, 403);
  if (params) statuses.push(404);
  if (writes) statuses.push(409);
  if (body) statuses.push(413, 415);
  return [...new Set(statuses)].toSorted((a, b) => a - b);
}

function errorResponse(status: number) {
  const messages = Object.values(errors)
    .filter(([code]) => Math.floor(code / 100) === status)
    .map(([code, message]) => `${code}: ${message}`);
  return {
    description: messages.join('\n\n'),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  };
}

// `post /api/v1/workspace/{id}/scope` is postWorkspaceIdScope.
function operationId(method: string, path: string): string {
  const words = path.replace(/^\/api\/v1/, '').split(/[^A-Za-z0-9]+/);
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}
