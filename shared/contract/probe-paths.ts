import { Type, type TSchema } from 'typebox';
import { exampleOf } from './example.ts';
import { object } from './schema-kinds.ts';

// The paths that every server answers without a token, as the OpenAPI document describes them.
type Probe = { get: { tags: string[]; summary: string; security: []; responses: Record<number, object> } };

const state = Type.Enum(['ok', 'away']);
const readiness = (status: string) =>
  object({
    status: Type.Literal(status),
    checks: Type.Record(Type.String(), state, { description: 'dependencies by name', examples: [{ redis: 'ok' }] }),
  });

/** Their answers. The OpenAPI document adds the errors that any request may get. */
export const probePaths: Record<string, Probe> = {
  '/healthz': probe('Whether the process is alive', {
    200: json('It is alive', object({ status: Type.Literal('ok') })),
  }),
  '/readyz': probe('Whether the dependencies answer', {
    200: json('All answer', readiness('ready')),
    503: json('Not all answer', readiness('not ready')),
  }),
  '/metrics': probe('Metrics for Prometheus', { 200: text('Metrics', 'text/plain') }),
  '/openapi.json': probe('This document', {
    200: json('OpenAPI 3.1', Type.Object({}, { examples: [{}] })),
    304: { description: 'It is the one that If-None-Match names', content: {} },
  }),
};

/** Those that clients reach: with a port of their own for the others, on which no client is, whether it is alive alone. */
export function clientProbePaths(opsPort: number | undefined): Record<string, Probe> {
  if (opsPort === undefined) return probePaths;
  const { '/readyz': _ready, '/metrics': _metrics, ...others } = probePaths;
  return others;
}

function probe(summary: string, responses: Record<number, object>): Probe {
  return { get: { tags: ['Probes'], summary, security: [], responses } };
}

function json(description: string, schema: TSchema) {
  return {
    description,
    content: { 'application/json': { schema, example: exampleOf(schema, `probe (${description})`) } },
  };
}

function text(description: string, type: string) {
  return { description, content: { [type]: { schema: { type: 'string' } } } };
}
