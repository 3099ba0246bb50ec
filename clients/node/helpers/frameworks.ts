// An API in each framework behind its guard.
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import {
  fastifyGuard,
  honoGuard,
  koaGuard,
  nodeGuard,
  type Cost,
  type HoldOptions,
  type Keytally,
  type KeptUsage,
} from '../index.ts';
import type { RequestedScopes } from '../guard-options.ts';
import { listen, type App } from './listen.ts';

type Settings = {
  costOf: (url: string) => string | Cost;
  hold?: HoldOptions;
  scopes?: RequestedScopes;
  open?: KeptUsage;
  idempotencyKey?: () => string;
  onError?: (error: Error) => void;
};
/** Gives an object, which is answered as JSON, or the lines of a stream. `request` is what `identityOf` takes. */
type Handle = (path: string, request: object) => object | Promise<object>;
type Framework = (client: Keytally, settings: Settings, handle: Handle) => Promise<App>;

// Each takes the end client's address from a header, as behind a proxy that it trusts.
export const frameworks: Record<string, Framework> = {
  Koa(client, { costOf, ...options }, handle) {
    const app = new Koa({ proxy: true });
    app.silent = true;
    app.use(koaGuard(client, { ...options, cost: (ctx) => costOf(ctx.url) }));
    app.use(async (ctx) => {
      ctx.body = bodyOf(await handle(ctx.path, ctx));
    });
    return listen(createServer(app.callback()));
  },
  Express(client, { costOf, ...options }, handle) {
    const app = express().set('trust proxy', true).set('env', 'test');
    // Under a router, which sees only the rest of the path.
    const router = express.Router();
    router.use(nodeGuard(client, { ...options, cost: (request) => costOf(request.url) }));
    router.get('/*path', async (request, response) => {
      const answer = await handle(request.originalUrl, request);
      if (!isStream(answer)) return void response.json(answer);
      for await (const line of answer) if (!response.write(line) || response.closed) break;
      return void response.end();
    });
    return listen(createServer(app.use('/v1', router)));
  },
  async Fastify(client, { costOf, ...options }, handle) {
    const app = fastify({ trustProxy: true });
    app.addHook('onRequest', fastifyGuard(client, { ...options, cost: (request) => costOf(request.url) }));
    app.get('/*', async (request, reply) => reply.send(bodyOf(await handle(request.url, request))));
    return {
      url: await app.listen({ port: 0, host: '127.0.0.1' }),
      server: app.server,
      stop() {
        app.server.closeAllConnections();
        return app.close();
      },
    };
  },
  Hono(client, { costOf, ...options }, handle) {
    const app = new Hono();
    const ip = (c: { req: { header(name: string): string | undefined } }) => c.req.header('x-forwarded-for');
    app.use(honoGuard(client, { ...options, ip, cost: async (c) => costOf(c.req.url) }));
    app.get('/*', async (c) => {
      const answer = await handle(c.req.path, c);
      if (!isStream(answer)) return c.json(answer);
      return new Response(ReadableStream.from(answer).pipeThrough(new TextEncoderStream()));
    });
    return listen(createServer(bridge((request) => app.fetch(request))));
  },
  'node:http'(client, { costOf, ...options }, handle) {
    const guard = nodeGuard<IncomingMessage>(client, {
      ...options,
      ip: (request) => request.headers['x-forwarded-for'] as string,
      cost: (request) => costOf(request.url!),
    });
    return listen(
      createServer((request, response) =>
        guard(request, response, async (error) => {
          response.statusCode = error ? 500 : 200;
          response.setHeader('Content-Type', 'application/json');
          response.end(JSON.stringify(error ? {} : await handle(request.url!, request)));
        }),
      ),
    );
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
