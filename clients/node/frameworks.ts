import type { Keytally } from './client.ts';
import type { GuardOptions } from './guard-options.ts';
import { makeDecide, type Outcome } from './guard.ts';
import { watchBody } from './hold.ts';
// A guard's functions get the framework's own request. A program has the types of the framework that it uses; the
// others are not found, become `any`, and are replaced by the few fields below. No framework is a dependency.
/** @ts-ignore */
import type { Request as ExpressRequest } from 'express';
/** @ts-ignore */
import type { FastifyRequest } from 'fastify';
/** @ts-ignore */
import type { Context as HonoContext } from 'hono';
/** @ts-ignore */
import type { Context as KoaContext } from 'koa';

type IfFound<Type, Fields> = [0] extends [1 & Type] ? Fields : Type;

// What the guards use of each framework: any version that has these fields works.
type Headers = Record<string, string | string[] | undefined>;
type Closing = {
  once?(event: 'close', listener: () => void): unknown;
  headersSent?: boolean;
  destroyed?: boolean;
  /** Of HTTP/2. */
  stream?: { destroyed?: boolean };
};
export type KoaFields = {
  method: string;
  url: string;
  ip: string;
  status: number;
  body: unknown;
  headers: Headers;
  res?: Closing;
  set(headers: Record<string, string>): void;
};
export type NodeFields = {
  method?: string | undefined;
  url?: string | undefined;
  headers: Headers;
  socket: { remoteAddress?: string | undefined };
};
export type NodeResponse = Closing & {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
};
export type FastifyFields = { method: string; url: string; ip: string; headers: Headers };
export type FastifyReply = {
  raw?: Closing;
  hijack?(): unknown;
  code(status: number): unknown;
  headers(headers: Record<string, string>): unknown;
  send(body: string): unknown;
};
export type HonoFields = {
  req: { method: string; url: string; header(name: string): string | undefined };
  header(name: string, value: string): void;
  res: Response;
};

/** Middleware for Koa: `app.use(koaGuard(client, { cost: '1' }))`. */
export function koaGuard<Context extends KoaFields = IfFound<KoaContext, KoaFields>>(
  client: Keytally,
  options: GuardOptions<Context> = {},
) {
  const decide = makeDecide(client, options);
  return async (ctx: KoaFields, next: () => Promise<unknown>): Promise<void> => {
    const { headers, refusal, ended } = await decide(ctx as Context, { ...requestLine(ctx), ip: ctx.ip });
    if (isOver(ctx.res, ended)) return;
    ctx.set({ ...headers, ...refusal?.headers });
    if (!refusal) return void (await next());
    ctx.status = refusal.status;
    ctx.body = refusal.body;
  };
}

/**
 * Middleware for Express and Connect: `app.use(nodeGuard(client, { cost: '1' }))`. For plain `node:http`, call the guard
 * yourself and say the type: `nodeGuard<IncomingMessage>(client)`. It calls `next()` when a request may pass.
 */
export function nodeGuard<Request extends NodeFields = IfFound<ExpressRequest, NodeFields>>(
  client: Keytally,
  options: GuardOptions<Request> = {},
) {
  const decide = makeDecide(client, options);
  return async (request: NodeFields, response: NodeResponse, next: (error?: unknown) => void): Promise<void> => {
    // Express has its own idea of the address, and under a router `url` lacks the path where the router is mounted.
    const { ip = request.socket.remoteAddress, originalUrl: url = request.url } = request as ExpressFields;
    const { method, headers } = request;
    let outcome: Outcome;
    try {
      outcome = await decide(request as Request, { ...requestLine({ method, url, headers }), ip });
    } catch (error) {
      return next(error);
    }
    const { refusal, ended } = outcome;
    if (isOver(response, ended)) return;
    for (const [name, value] of Object.entries({ ...outcome.headers, ...refusal?.headers })) {
      response.setHeader(name, value);
    }
    if (!refusal) return next();
    response.statusCode = refusal.status;
    response.end(refusal.body);
  };
}

/** A hook for Fastify: `app.addHook('onRequest', fastifyGuard(client))`. Use `preHandler` where the cost is in the body. */
export function fastifyGuard<Request extends FastifyFields = IfFound<FastifyRequest, FastifyFields>>(
  client: Keytally,
  options: GuardOptions<Request> = {},
) {
  const decide = makeDecide(client, options);
  return async (request: FastifyFields, reply: FastifyReply): Promise<unknown> => {
    const { headers, refusal, ended } = await decide(request as Request, { ...requestLine(request), ip: request.ip });
    if (isOver(reply.raw, ended)) return reply.hijack?.();
    reply.headers({ ...headers, ...refusal?.headers });
    if (!refusal) return undefined;
    reply.code(refusal.status);
    return reply.send(refusal.body);
  };
}

/** Middleware for Hono: `app.use(honoGuard(client))`. Hono does not know the client's address: for allow lists, give `ip`. */
export function honoGuard<Context extends HonoFields = IfFound<HonoContext, HonoFields>>(
  client: Keytally,
  options: GuardOptions<Context> = {},
) {
  const decide = makeDecide(client, options);
  return async (c: HonoFields, next: () => Promise<void>): Promise<Response | void> => {
    const { method, url } = c.req;
    const header = (name: string) => c.req.header(name);
    const path = new URL(url).pathname;
    const { headers, refusal, ended } = await decide(c as Context, { method, url: path, ip: undefined, header });
    if (refusal) {
      return new Response(refusal.body, { status: refusal.status, headers: { ...headers, ...refusal.headers } });
    }
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
    await next().catch((error: unknown) => {
      ended?.();
      throw error;
    });
    if (!ended) return;
    // Of an answer to HEAD nobody reads the body.
    if (c.res.body && method !== 'HEAD') c.res = new Response(watchBody(c.res.body, ended), c.res);
    else ended();
  };
}

/**
 * Whether there is nothing more to do: the request was answered while it was verified, or held credits for an end client who has left.
 * Else the credits are settled once the answer has ended.
 */
function isOver(response: Closing | undefined, ended: (() => void) | undefined): boolean {
  const isGone = Boolean(response?.destroyed || response?.stream?.destroyed);
  if (response?.headersSent || (ended && isGone)) {
    ended?.();
    return true;
  }
  if (ended) response?.once?.('close', ended);
  return false;
}

type ExpressFields = NodeFields & { ip?: string; originalUrl?: string };
type RequestLine = { method?: string | undefined; url?: string | undefined; headers: Headers };

function requestLine({ method = '', url = '', headers }: RequestLine) {
  // A header that was sent more than once is joined, so that it cannot be one key.
  const header = (name: string) => [headers[name] ?? []].flat().join(', ');
  return { method, url, header };
}
