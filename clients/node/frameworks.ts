import type { Keytally } from './client.ts';
import type { GuardOptions, Seen } from './guard-options.ts';
import { makeDecide, type Outcome } from './guard.ts';
import { watchBody, type HoldEvents } from './hold.ts';
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
type Raw = { rawHeaders?: readonly string[] };
type Closing = {
  once?(event: 'close', listener: () => void): unknown;
  end?(...answer: never[]): unknown;
  headersSent?: boolean;
  writableEnded?: boolean;
  destroyed?: boolean;
  /** Of HTTP/2. */
  stream?: { destroyed?: boolean };
};
type Line = { method: string; url: string; headers: Headers; ip?: string | undefined };
export type KoaFields = Line & {
  status: number;
  body: unknown;
  req?: Raw;
  res?: Closing;
  set(headers: Record<string, string>): void;
};
export type NodeFields = {
  method?: string | undefined;
  url?: string | undefined;
  headers: Headers;
  rawHeaders?: readonly string[];
  socket: { remoteAddress?: string | undefined };
};
export type NodeResponse = Closing & {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
};
export type FastifyFields = Line & { raw?: Raw };
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
    const { headers, refusal, hold } = await decide(ctx as Context, seenOf(ctx, ctx.req));
    if (isOver(ctx.res, hold)) return;
    ctx.set({ ...headers, ...refusal?.headers });
    if (!refusal) return void (await next().finally(hold?.handled));
    ctx.status = refusal.status;
    ctx.body = refusal.body;
  };
}

/**
 * Middleware for Express and Connect: `app.use(nodeGuard(client, { cost: '1' }))`. For plain `node:http`, call the guard
 * yourself and say the type: `nodeGuard<IncomingMessage>(client)`. It calls `next()` when a request may pass, and `next(error)` when
 * a function among the options failed: then nothing was decided, and you must answer with 500.
 */
export function nodeGuard<Request extends NodeFields = IfFound<ExpressRequest, NodeFields>>(
  client: Keytally,
  options: GuardOptions<Request> = {},
) {
  const decide = makeDecide(client, options);
  return async (request: NodeFields, response: NodeResponse, next: (error?: unknown) => void): Promise<void> => {
    // Express has its own idea of the address, and under a router `url` lacks the path where the router is mounted.
    const { ip = request.socket.remoteAddress, originalUrl: url = request.url ?? '' } = request as ExpressFields;
    const { method = '', headers } = request;
    let outcome: Outcome;
    try {
      outcome = await decide(request as Request, seenOf({ method, url, headers, ip }, request));
    } catch (error) {
      return next(error);
    }
    const { refusal, hold } = outcome;
    if (isOver(response, hold)) return;
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
    const { headers, refusal, hold } = await decide(request as Request, seenOf(request, request.raw));
    if (isOver(reply.raw, hold)) return reply.hijack?.();
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
    const { headers, refusal, hold } = await decide(c as Context, { method, url: path, ip: undefined, header });
    if (refusal) {
      return new Response(refusal.body, { status: refusal.status, headers: { ...headers, ...refusal.headers } });
    }
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
    await next().catch((error: unknown) => {
      hold?.answered();
      throw error;
    });
    if (!hold) return;
    // Of an answer to HEAD nobody reads the body.
    if (c.res.body && method !== 'HEAD') c.res = new Response(watchBody(c.res.body, hold.answered), c.res);
    else hold.answered();
  };
}

/**
 * Whether there is nothing more to do: the request was answered while it was verified, or held credits for an end client who has left.
 * Else the credits are settled once the answer has ended.
 */
function isOver(response: Closing | undefined, hold: HoldEvents | undefined): boolean {
  const isGone = Boolean(response?.destroyed || response?.stream?.destroyed);
  if (response?.headersSent || (hold && isGone)) {
    hold?.answered();
    return true;
  }
  if (hold) response?.once?.('close', () => (response.writableEnded ? hold.answered() : left(response, hold)));
  return false;
}

/** The end client of an answer left before its end. Some frameworks say only by a vain `end` that the handler has ended. */
function left(response: Closing, hold: HoldEvents): void {
  const { end } = response;
  response.end = (...answer) => {
    hold.handled();
    return end?.apply(response, answer);
  };
  hold.left();
}

type ExpressFields = NodeFields & { ip?: string; originalUrl?: string };

function seenOf({ method, url, headers, ip }: Line, raw: Raw | undefined): Seen {
  // A header that was sent more than once is joined, so that it cannot be one key.
  const header = (name: string) => [headers[name] ?? []].flat().join(', ');
  return { method, url, ip, header, rawHeaders: raw?.rawHeaders };
}
