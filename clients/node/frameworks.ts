import type { Keytally } from './client.ts';
import { decide, type GuardOptions, type Outcome } from './guard.ts';

// Frameworks by what is used of them: the client depends on none, and works with any version that has this.
type Headers = Record<string, string | string[] | undefined>;
export type KoaContext = {
  method: string;
  url: string;
  ip: string;
  status: number;
  body: unknown;
  headers: Headers;
  set(headers: Record<string, string>): void;
};
export type NodeRequest = {
  method?: string | undefined;
  url?: string | undefined;
  headers: Headers;
  socket: { remoteAddress?: string | undefined };
};
type Express = { ip?: string; originalUrl?: string };
export type NodeResponse = {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
};
export type FastifyRequest = { method: string; url: string; ip: string; headers: Headers };
export type FastifyReply = {
  code(status: number): unknown;
  headers(headers: Record<string, string>): unknown;
  send(body: string): unknown;
};
export type HonoContext = {
  req: { method: string; url: string; header(name: string): string | undefined };
  header(name: string, value: string): void;
};

/** Middleware for Koa: `app.use(koaGuard(client, { cost: '1' }))`. */
export function koaGuard<Context extends KoaContext>(client: Keytally, options: GuardOptions<Context> = {}) {
  return async (ctx: Context, next: () => Promise<unknown>): Promise<void> => {
    const { headers, refusal } = await decide(client, options, ctx, { ...viewOf(ctx), ip: ctx.ip });
    ctx.set({ ...headers, ...refusal?.headers });
    if (!refusal) return void (await next());
    ctx.status = refusal.status;
    ctx.body = refusal.body;
  };
}

/** Middleware for Express, and a guard for plain `node:http`: `next` is called without an error when a request may pass. */
export function nodeGuard<Request extends NodeRequest>(client: Keytally, options: GuardOptions<Request> = {}) {
  return async (request: Request, response: NodeResponse, next: (error?: unknown) => void): Promise<void> => {
    // What Express says, where it is Express: its own idea of the address, and the path before a router took its part.
    const { ip = request.socket.remoteAddress, originalUrl: url = request.url } = request as Express;
    const { method, headers } = request;
    let outcome: Outcome;
    try {
      outcome = await decide(client, options, request, { ...viewOf({ method, url, headers }), ip });
    } catch (error) {
      return next(error);
    }
    const { refusal } = outcome;
    for (const [name, value] of Object.entries({ ...outcome.headers, ...refusal?.headers })) {
      response.setHeader(name, value);
    }
    if (!refusal) return next();
    response.statusCode = refusal.status;
    response.end(refusal.body);
  };
}

/** A hook for Fastify: `app.addHook('onRequest', fastifyGuard(client))`; `preHandler` where the cost is in the body. */
export function fastifyGuard<Request extends FastifyRequest>(client: Keytally, options: GuardOptions<Request> = {}) {
  return async (request: Request, reply: FastifyReply): Promise<unknown> => {
    const { headers, refusal } = await decide(client, options, request, { ...viewOf(request), ip: request.ip });
    reply.headers({ ...headers, ...refusal?.headers });
    if (!refusal) return undefined;
    reply.code(refusal.status);
    return reply.send(refusal.body);
  };
}

/** Middleware for Hono. Hono knows no address of the client: where keys have allow lists, give `ip`. */
export function honoGuard<Context extends HonoContext>(client: Keytally, options: GuardOptions<Context> = {}) {
  return async (c: Context, next: () => Promise<void>): Promise<Response | void> => {
    const { method, url } = c.req;
    const header = (name: string) => c.req.header(name);
    const { headers, refusal } = await decide(client, options, c, {
      method,
      url: new URL(url).pathname,
      ip: undefined,
      header,
    });
    if (refusal)
      return new Response(refusal.body, { status: refusal.status, headers: { ...headers, ...refusal.headers } });
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
    await next();
  };
}

function viewOf({
  method = '',
  url = '',
  headers,
}: {
  method?: string | undefined;
  url?: string | undefined;
  headers: Headers;
}) {
  // A header that came more than once can't be one key.
  const header = (name: string) => [headers[name] ?? []].flat().join(', ');
  return { method, url, header };
}
