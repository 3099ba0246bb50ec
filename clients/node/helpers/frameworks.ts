// An API in each framework behind its guard.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import express from 'express';
import fastify, { type FastifyRequest } from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { fastifyGuard, honoGuard, koaGuard, nodeGuard, type Cost, type GuardOptions, type Keytally } from '../index.ts';

/** The options of a guard, whose functions get the url of a request, which under a router may be the end of it, or one of its headers. */
export type Settings = Omit<GuardOptions<unknown>, 'cost' | 'idempotencyKey'> & {
  costOf: (url: string) => string | Cost;
  idempotencyKeyOf?: (header: string | undefined) => string | undefined;
};
/** Gives an object, which is answered as JSON, or the lines of a stream. `request` is what `identityOf` takes. */
type Handle = (path: string, request: object) => object | Promise<object>;
type Framework = (client: Keytally, settings: Settings, handle: Handle) => RequestListener | Promise<RequestListener>;
type Header = (name: string) => string | undefined;

/** The options of a guard from the settings, and what shows the url and the headers of a framework's request. */
function optionsOf<Request>(
  { costOf, idempotencyKeyOf, ...others }: Settings,
  url: (request: Request) => string,
  headerOf: (request: Request) => Header,
): GuardOptions<Request> {
  return {
    ...others,
    cost: (request) => costOf(url(request)),
    ...(idempotencyKeyOf && { idempotencyKey: (request) => idempotencyKeyOf(headerOf(request)('idempotency-key')) }),
  };
}

// Each takes the end client's address from a header, as behind a proxy that it trusts.
export const frameworks: Record<string, Framework> = {
  Koa(client, settings, handle) {
    const app = new Koa({ proxy: true });
    app.silent = true;
    const guard = koaGuard(
      client,
      optionsOf<Koa.Context>(
        settings,
        (ctx) => ctx.url,
        (ctx) => (name) => ctx.get(name) || undefined,
      ),
    );
    app.use(guard).use(async (ctx) => {
      ctx.body = bodyOf(await handle(ctx.path, ctx));
    });
    return app.callback();
  },
  Express(client, settings, handle) {
    const app = express().set('trust proxy', true).set('env', 'test');
    const options = optionsOf<express.Request>(
      settings,
      (request) => request.url,
      (request) => (name) => request.get(name),
    );
    // Under a router, which sees only the rest of the path.
    const router = express.Router().use(nodeGuard(client, options));
    router.use(async (request, response) => {
      const answer = await handle(request.originalUrl.split('?', 1)[0]!, request);
      if (!isStream(answer)) return void response.json(answer);
      for await (const line of answer) if (!response.write(line) || response.closed) break;
      return void response.end();
    });
    return app.use('/:first', router);
  },
  async Fastify(client, settings, handle) {
    const app = fastify({ trustProxy: true });
    const guard = fastifyGuard(
      client,
      optionsOf<FastifyRequest>(
        settings,
        (request) => request.url,
        (request) => (name) => request.headers[name] as string | undefined,
      ),
    );
    app.addHook('onRequest', guard);
    app.get('/*', async (request, reply) => reply.send(bodyOf(await handle(request.url.split('?', 1)[0]!, request))));
    await app.ready();
    return app.routing;
  },
  Hono(client, settings, handle) {
    const app = new Hono();
    const headerOf = (c: { req: { header: Header } }) => (name: string) => c.req.header(name);
    const options = optionsOf<{ req: { url: string; header: Header } }>(settings, (c) => c.req.url, headerOf);
    app.use(honoGuard(client, { ...options, ip: (c) => headerOf(c)('x-forwarded-for') }));
    app.get('/*', async (c) => {
      const answer = await handle(c.req.path, c);
      if (!isStream(answer)) return c.json(answer);
      return new Response(ReadableStream.from(answer).pipeThrough(new TextEncoderStream()));
    });
    return bridge((request) => app.fetch(request));
  },
  'node:http'(client, settings, handle) {
    const headerOf = (request: IncomingMessage) => (name: string) => request.headers[name] as string | undefined;
    const options = optionsOf<IncomingMessage>(settings, (request) => request.url!, headerOf);
    const guard = nodeGuard(client, { ...options, ip: (request) => headerOf(request)('x-forwarded-for') });
    const answer = async (request: IncomingMessage, response: ServerResponse) => {
      try {
        const told = await handle(request.url!.split('?', 1)[0]!, request);
        if (!isStream(told)) return void response.end(JSON.stringify(told));
        for await (const line of told) if (!response.write(line) || response.closed) break;
      } catch {
        response.statusCode = 500;
      }
      return void response.end();
    };
    return (request, response) =>
      guard(request, response, (error) => {
        if (!error) return void answer(request, response);
        response.statusCode = 500;
        return void response.end();
      });
  },
};

function isStream(answer: object): answer is AsyncIterable<string> {
  return Symbol.asyncIterator in answer;
}

function bodyOf(answer: object): object {
  return isStream(answer) ? ReadableStream.from(answer) : answer;
}

// Does what an edge runtime does: a request in, a response out. Lines of one name are joined.
function bridge(handle: (request: Request) => Response | Promise<Response>): RequestListener {
  return async (request, response) => {
    const headers = new Headers();
    for (const [name, values] of Object.entries(request.headersDistinct)) {
      if (name !== 'host') for (const value of values!) headers.append(name, value);
    }
    const answer = await handle(new Request(`http://edge${request.url}`, { method: request.method!, headers }));
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    const reader = answer.body?.getReader();
    response.once('close', () => void reader?.cancel().catch(() => {}));
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true };
      if (done) break;
      response.write(value);
    }
    response.end();
  };
}
