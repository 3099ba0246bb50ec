import { Type, type TSchema } from 'typebox';
import { exampleOf } from './example.ts';
import { object } from './schema-kinds.ts';

// The paths that every server answers without a token, as the OpenAPI document describes them.
type Probe = { get: { tags: ['Probes']; security: []; responses: Record<number, object> } };

const state = Type.Enum(['ok', 'away']);
const readiness = (status: string) =>
  object({
    status: Type.Literal(status),
    checks: Type.Record(Type.String(), state, { description: 'dependencies by name', examples: [{ redis: 'ok' }] }),
  });

/** Their answers. The OpenAPI document adds the errors that any request may get. */
export const probePaths: Record<string, Probe> = {
  '/healthz': probe({
    operationId: 'getHealth',
    summary: 'Whether the process is alive',
    description: 'Asks no other server: for restarting a process that hangs.',
    responses: { 200: json('It is alive', object({ status: Type.Literal('ok') })) },
  }),
  '/readyz': probe({
    operationId: 'getReadiness',
    summary: 'Whether all dependencies answer',
    description: 'For people and monitors: while one of them is away, some requests fail.',
    responses: { 200: json('All answer', readiness('ready')), 503: json('Not all answer', readiness('not ready')) },
  }),
  '/servingz': probe({
    operationId: 'getServing',
    summary: 'Whether the process can serve anybody',
    description:
      'For load balancers: while one dependency of several is away, a process goes on serving what does not need it.',
    responses: {
      200: json('What it needs for any request answers', readiness('serving')),
      503: json('It can serve nobody', readiness('not serving')),
    },
  }),
  '/metrics': probe({
    operationId: 'getMetrics',
    summary: 'Metrics for Prometheus',
    description: 'In its text format; the documentation says what each one counts.',
    responses: { 200: { description: 'Metrics', content: { 'text/plain': { schema: { type: 'string' } } } } },
  }),
  '/openapi.json': probe({
    operationId: 'getOpenApi',
    summary: 'This document',
    description: 'For generators of clients, and for tools that try the API.',
    responses: {
      200: json('OpenAPI 3.1', Type.Object({}, { examples: [{}] })),
      304: { description: 'It is the one that If-None-Match names', content: {} },
    },
  }),
};

/** Those that clients reach: with a port of their own for the others, on which no client is, whether it is alive alone. */
export function clientProbePaths(opsPort: number | undefined): Record<string, Probe> {
  if (opsPort === undefined) return probePaths;
  const { '/readyz': _ready, '/servingz': _serving, '/metrics': _metrics, ...others } = probePaths;
  return others;
}

function probe({ responses, ...about }: Record<string, unknown> & { responses: Record<number, object> }): Probe {
  return { get: { tags: ['Probes'], ...about, security: [], responses } };
}

function json(description: string, schema: TSchema) {
  return {
    description,
    content: { 'application/json': { schema, example: exampleOf(schema, `probe (${description})`) } },
  };
}
