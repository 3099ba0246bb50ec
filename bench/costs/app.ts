// An API in Koa or Express, alone or behind its guard. PORT, FRAMEWORK; VERIFY_URL and TOKEN put the guard before it.
import { createServer } from 'node:http';
import express from 'express';
import Koa from 'koa';
import { identityOf, keytally, koaGuard, nodeGuard } from '../../clients/node/index.ts';

const { PORT, FRAMEWORK, VERIFY_URL, TOKEN } = process.env;
const client = VERIFY_URL ? keytally({ url: VERIFY_URL, token: TOKEN, verifyTimeoutMs: 10_000 }) : undefined;
const options = { cost: '0.001', scopes: [{ representation: 'users', read: true }] };
const answer = { name: 'Ada' };
const statusOf = (request: object) => (client ? identityOf(request).status : 'OPEN');

const frameworks: Record<string, () => Parameters<typeof createServer>[1]> = {
  koa() {
    const app = new Koa();
    // Outside the guard: how the benchmark sees that the program is ready.
    app.use((ctx, next) => (ctx.path === '/' ? void (ctx.body = answer) : next()));
    if (client) app.use(koaGuard(client, options));
    app.use((ctx) => {
      ctx.body = { ...answer, status: statusOf(ctx) };
    });
    return app.callback();
  },
  express() {
    const app = express();
    app.get('/', (_, response) => void response.json(answer));
    if (client) app.use(nodeGuard(client, options));
    app.use((request, response) => void response.json({ ...answer, status: statusOf(request) }));
    return app;
  },
};

createServer(frameworks[FRAMEWORK ?? '']!()).listen(Number(PORT), '127.0.0.1');
