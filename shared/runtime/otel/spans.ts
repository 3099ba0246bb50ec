import { AsyncLocalStorage } from 'node:async_hooks';
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type Span,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api';
import { parseTraceParent } from '@opentelemetry/core';
import {
  ATTR_ERROR_TYPE,
  ATTR_HTTP_REQUEST_METHOD,
  ATTR_HTTP_RESPONSE_STATUS_CODE,
  ATTR_HTTP_ROUTE,
} from '@opentelemetry/semantic-conventions';
import type { Sampling } from './sampling.ts';
import type { Attributes, SpanKind as AskedKind, Telemetry } from '../telemetry.ts';

// Of a batch with more traced things, the spans of the others are left out.
const MOST_TRACED_PER_BATCH = 500;

/** Makes spans of work. A call that is not traced is left alone: nothing follows it through the program. */
export function makeSpans(tracer: Tracer, sampling: Sampling): Omit<Telemetry, 'stop'> {
  const running = new AsyncLocalStorage<Context>();

  return {
    request({ method, route, traceparent }, work) {
      const caller = traceparent === undefined ? null : parseTraceParent(traceparent);
      if (!sampling(caller)) return work();
      const parent = contextOf(caller);
      const attributes = { [ATTR_HTTP_REQUEST_METHOD]: method, [ATTR_HTTP_ROUTE]: route };
      const span = tracer.startSpan(`${method} ${route}`, { kind: SpanKind.SERVER, attributes }, parent);
      return inSpan(span, parent, work, (result) => ({ [ATTR_HTTP_RESPONSE_STATUS_CODE]: statusOf(result) ?? 200 }));
    },
    part:
      (asked, work, attributesOf = () => ({})) =>
      (...args) => {
        const parent = running.getStore();
        return parent ? inSpan(start(asked, parent), parent, () => work(...args), attributesOf) : work(...args);
      },
    trace() {
      const span = trace.getSpanContext(running.getStore() ?? ROOT_CONTEXT);
      return span ? traceparentOf(span) : '';
    },
    batch: (asked, work) =>
      async function workOnBatch(things, ...rest) {
        const traced = things.filter((thing) => thing.trace !== undefined).slice(0, MOST_TRACED_PER_BATCH);
        if (traced.length === 0) return work(things, ...rest);
        const parents = traced.map((thing) => contextOf(parseTraceParent(thing.trace!)));
        const parent = running.getStore() ?? ROOT_CONTEXT;
        const ofBatch = start(asked, parent, parents, { 'keytally.batch.size': things.length });
        const spans = new Map(
          traced.map((thing, i) => [thing, start(asked, parents[i]!, [trace.setSpan(ROOT_CONTEXT, ofBatch)])]),
        );
        const handedOn = things.map((thing) => {
          const span = spans.get(thing);
          return span ? { ...thing, trace: traceparentOf(span.spanContext()) } : thing;
        });
        return inSpan(
          ofBatch,
          parent,
          () => work(handedOn, ...rest),
          () => ({}),
        ).finally(() => {
          for (const span of spans.values()) span.end();
        });
      },
  };

  function start(
    { name, kind, attributes: known }: AskedKind,
    parent: Context,
    linked: Context[] = [],
    more?: Attributes,
  ): Span {
    const links = linked.flatMap((one) => trace.getSpanContext(one) ?? []).map((context) => ({ context }));
    const attributes = { ...known, ...more };
    const options = { kind: SpanKind[kind.toUpperCase() as Uppercase<typeof kind>], attributes, links };
    return tracer.startSpan(more ? `${name}s` : name, options, parent);
  }

  async function inSpan<Result>(
    span: Span,
    parent: Context,
    work: () => Promise<Result>,
    attributesOf: (result: Result) => Attributes,
  ): Promise<Result> {
    try {
      const result = await running.run(trace.setSpan(parent, span), work);
      say(span, () => attributesOf(result));
      return result;
    } catch (error) {
      say(span, () => errorOf(error));
      if (isFault(error)) span.setStatus({ code: SpanStatusCode.ERROR });
      throw error;
    } finally {
      span.end();
    }
  }
}

/** The context of a sampled caller. Nothing else that a client sent is taken over: `tracestate` and baggage may hold anything. */
function contextOf(caller: SpanContext | null): Context {
  if (!caller) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, { ...caller, traceFlags: TraceFlags.SAMPLED, isRemote: true });
}

function traceparentOf({ traceId, spanId }: { traceId: string; spanId: string }): string {
  return `00-${traceId}-${spanId}-0${TraceFlags.SAMPLED}`;
}

// What can't be said must not fail work that is done.
function say(span: Span, attributes: () => Attributes): void {
  try {
    span.setAttributes(attributes());
  } catch {
    span.setAttribute(ATTR_ERROR_TYPE, 'untold');
  }
}

// An error's message may hold what its driver was sent: only its name is said.
function errorOf(error: unknown): Attributes {
  const { errorName, name = 'error' } = error as { errorName?: string; name?: string };
  const status = statusOf(error);
  return {
    [ATTR_ERROR_TYPE]: errorName ?? name,
    ...(status !== undefined && { [ATTR_HTTP_RESPONSE_STATUS_CODE]: status }),
  };
}

function isFault(error: unknown): boolean {
  const status = statusOf(error);
  return status === undefined || status >= 500;
}

function statusOf(what: unknown): number | undefined {
  const status = (what as { status?: unknown } | undefined | null)?.status;
  return typeof status === 'number' ? status : undefined;
}
