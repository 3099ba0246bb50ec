import { Type, type TSchema } from 'typebox';
import { exampleOf } from './example.ts';
import { object } from './schemas.ts';

// What the OpenAPI document says of the paths that every server answers without a token.

type Probe = { get: { tags: string[]; summary: string; security: []; responses: Record<number, object> } };

const state = Type.Enum(['ok', 'away']);
const readiness = (status: string) =>
  object({
    status: Type.Literal(status),
    checks: Type.Record(Type.String(), state, { description: 'dependencies by name', examples: [{ redis: 'ok' }] }),
  });

/** Those paths; what is wrong with a request as such comes on top of their own answers. */
export const probePaths: Record<string, Probe> = {
  '/healthz': probe('Whether the process lives', { 200: json('It lives', object({ status: Type.Literal('ok') })) }),
  '/readyz': probe('Whether what it depends on answers', {
    200: json('All of it does', readiness('ready')),
    503: json('Not all of it does', readiness('not ready')),
  }),
  '/metrics': probe('Metrics for Prometheus', { 200: text('Metrics', 'text/plain') }),
  '/openapi.json': probe('This document', { 200: json('OpenAPI 3.1', Type.Object({}, { examples: [{}] })) }),
};

function probe(summary: string, responses: Record<number, object>): Probe {
  return { get: { tags: ['Probes'], summary, security: [], responses } };
}

function json(description: string, schema: TSchema) {
  return { description, content: { 'application/json': { schema, example: exampleOf(schema) } } };
}

function text(description: string, type: string) {
  return { description, content: { [type]: { schema: { type: 'string' } } } };
}
