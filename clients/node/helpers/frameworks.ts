// An API in each framework behind its guard, whose handler answers what it knows of the key.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { fastifyGuard, honoGuard, identityOf, koaGuard, nodeGuard, type Cost, type Keytally } from '../index.ts';
import type { RequestedScopes } from '../guard-options.ts';

export type App = { url: string; stop(): unknown };
type Settings = {
  costOf: (url: string) => string | Cost;
  scopes?: RequestedScopes;
  onError?: (error: Error) => void;
};
type Framework = (client: Keytally, settings: Settings, answer: (identity: object) => object) => Promise<App>;

// Each takes the end client's address from a header, as behind a proxy that it trusts.
export const frameworks: Record<string, Framework> = {
  Koa(client, { costOf, ...options }, answer) {
    const app = new Koa({ proxy: true });
    app.silent = true;
    app.use(koaGuard(client, { ...options, cost: (ctx) => costOf(ctx.url) }));
    app.use((ctx) => {
      ctx.body = answer(identityOf(ctx));
    });
    return listen(createServer(app.callback()));
  },
  Express(client, { costOf, ...options }, answer) {
    const app = express().set('trust proxy', true).set('env', 'test');
    // Under a router, which sees only the rest of the path.
    const router = express.Router();
    router.use(nodeGuard(client, { ...options, cost: (request) => costOf(request.url) }));
    router.get('/*path', (request, response) => void response.json(answer(identityOf(request))));
    return listen(createServer(app.use('/v1', router)));
  },
  async Fastify(client, { costOf, ...options }, answer) {
    const app = fastify({ trustProxy: true });
    app.addHook('onRequest', fastifyGuard(client, { ...options, cost: (request) => costOf(request.url) }));
    app.get('/*', async (request) => answer(identityOf(request)));
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), stop: () => app.close() };
  },
  Hono(client, { costOf, ...options }, answer) {
    const app = new Hono();
    app.use(
      honoGuard(client, {
        ...options,
        ip: (c) => c.req.header('x-forwarded-for'),
        cost: async (c) => costOf(c.req.url),
      }),
    );
    app.get('/*', (c) => c.json(answer(identityOf(c))));
    return listen(createServer(bridge((request) => app.fetch(request))));
  },
  'node:http'(client, { costOf, ...options }, answer) {
    const guard = nodeGuard<IncomingMessage>(client, {
      ...options,
      ip: (request) => request.headers['x-forwarded-for'] as string,
      cost: (request) => costOf(request.url!),
    });
    return listen(
      createServer((request, response) =>
        guard(request, response, (error) => {
          response.statusCode = error ? 500 : 200;
          response.setHeader('Content-Type', 'application/json');
          response.end(JSON.stringify(error ? {} : answer(identityOf(request))));
        }),
      ),
    );
  },
};

async function listen(server: Server): Promise<App> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}

// Does what an edge runtime does: a request in, a response out. Lines of one name are joined.
function bridge(handle: (request: Request) => Response | Promise<Response>): RequestListener {
  return async (request, response) => {
    const headers = new Headers();
    for (const [name, values] of Object.entries(request.headersDistinct)) {
      if (name !== 'host') for (const value of values!) headers.append(name, value);
    }
    const answer = await handle(new Request(`http://edge${request.url}`, { method: request.method!, headers }));
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  };
}
