import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { listen } from './listen.ts';

type Value = { stringValue?: string; intValue?: number | string; doubleValue?: number };
type Attributes = { key: string; value: Value }[];
type Resource = { attributes: Attributes };
type Sent = { resourceSpans?: { resource: Resource; scopeSpans: { spans: RawSpan[] }[] }[] };
type RawSpan = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  attributes: Attributes;
  links?: { traceId: string; spanId: string }[];
  status: { code?: number };
};

export type ReceivedSpan = Omit<RawSpan, 'attributes'> & { service: string; told: Record<string, unknown> };

/** Stands where a collector stands: takes OTLP/HTTP in JSON, and keeps what it got. */
export async function startOtlpReceiver() {
  const requests: { path: string; headers: IncomingMessage['headers']; text: string }[] = [];
  const server = createServer((request, response) => {
    // A program may be killed in the middle of its request.
    take(request, response).catch(() => response.destroy());
  });
  const { url } = await listen(server);

  async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requests.push({ path: request.url!, headers: request.headers, text: await text(request) });
    response.setHeader('Content-Type', 'application/json').end('{}');
  }

  const sent = (path: string) =>
    requests.filter((one) => one.path === path).map(({ text }) => JSON.parse(text) as Sent);
  return {
    url,
    requests,
    spans: (): ReceivedSpan[] =>
      sent('/v1/traces').flatMap(({ resourceSpans = [] }) =>
        resourceSpans.flatMap(({ resource, scopeSpans }) =>
          scopeSpans.flatMap(({ spans }) =>
            spans.map((span) => ({ ...span, service: serviceOf(resource), told: valuesOf(span.attributes) })),
          ),
        ),
      ),
  };
}

/** What attributes say, by name. */
export function valuesOf(attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}

function serviceOf({ attributes }: Resource): string {
  return String(valuesOf(attributes)['service.name']);
}
