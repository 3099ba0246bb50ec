import { METHODS } from 'node:http';
import { Router } from '@koa/router';
import Koa from 'koa';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { makeDocs } from '../../../shared/http/docs.ts';
import { headersFor, requestId, type FixedHeaders, type TlsConfig } from '../../../shared/http/headers.ts';
import { inSlices, type Files } from '../../../shared/http/static-files.ts';
import { ApiError, asApiError, errorEnvelope } from '../../../shared/contract/errors.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import type { Config } from '../../../shared/runtime/variables.ts';
import { throttle } from '../../../shared/runtime/throttle.ts';
import { openApi, serversOf } from '../../../shared/contract/openapi.ts';
import { clientProbePaths } from '../../../shared/contract/probe-paths.ts';
import { onClientPort, type Probe } from '../../../shared/http/probes.ts';
import { asBooksUnavailable } from '../../../shared/stores/clickhouse.ts';
import { asPostgresUnavailable } from '../../../shared/stores/postgres.ts';
import { makeConsole } from './console.ts';
import { handle } from './handle.ts';
import type { ApiRoute, HandleOptions } from './route.ts';

type AppOptions = {
  routes: readonly ApiRoute[];
  /** Sessions of the pages, and the clock of a stack to test against. */
  undocumented: readonly ApiRoute[];
  handling: HandleOptions;
  probe: Probe;
  config: Pick<Config, 'OPS_PORT' | 'PUBLIC_API_URL' | 'PUBLIC_VERIFY_URL' | 'CORS_ORIGINS'> & TlsConfig;
  metrics: Metrics;
};

const STRANGERS_LOGGED_EVERY_MS = 1_000;
const PREFLIGHT_SECONDS = 600;
const CORS_METHODS = 'GET, POST, PATCH, DELETE';
const REQUEST_HEADERS = 'Authorization, Content-Type, Idempotency-Key, X-Request-Id';
const ANSWER_HEADERS = 'Retry-After, X-Request-Id';

/** The api as a Koa application: log and measure, CORS, error answers, probes, routes. */
export function makeApp({ routes, undocumented, handling, probe, config, metrics }: AppOptions): Koa {
  const { OPS_PORT: opsPort } = config;
  const { services, log } = handling;
  const servers = serversOf(config.PUBLIC_API_URL, config.PUBLIC_VERIFY_URL);
  const document = () => openApi(routes, servers, {}, clientProbePaths(opsPort));
  const app = new Koa();
  // Koa would print a stack for each client that is gone before its answer, and any stranger can go.
  app.on('error', (error: Error & { headerSent?: boolean }) => {
    log[error.headerSent ? 'debug' : 'error']({ error }, 'an answer could not be sent');
  });
  app.use(observe(services.clock, log, metrics, headersFor(config)));
  app.use(cors(config.CORS_ORIGINS));
  app.use(answerErrors(log));
  const [docs, console] = [makeDocs(servers, document), makeConsole(log, services.provider?.host)];
  app.use(files(onClientPort(probe, opsPort), (path, headers) => docs(path, headers) ?? console(path, headers)));

  const router = new Router({ strict: true, sensitive: true });
  for (const route of [...routes, ...undocumented]) {
    router.register(route.path.replace(/\{(\w+)\}/g, ':$1'), [route.method], handle(route, handling));
  }
  app.use(router.routes());
  app.use(unknownPath(router));
  return app;
}

function observe(clock: Clock, log: Logger, metrics: Metrics, headers: FixedHeaders): Koa.Middleware {
  const mayLogStranger = throttle(clock, STRANGERS_LOGGED_EVERY_MS);
  return async (ctx, next) => {
    const started = clock.monotonic();
    ctx.state['requestId'] = requestId(ctx.get('x-request-id'));
    ctx.set('X-Request-Id', ctx.state['requestId'] as string);
    ctx.set(headers);
    await next();
    const seconds = (clock.monotonic() - started) / 1000;
    const { method, status } = ctx;
    // Log the route, never the path: a path may hold a link token.
    const route = (ctx['_matchedRoute'] as string | undefined) ?? 'none';
    metrics.httpSeconds.observe({ method, route, status }, seconds);
    // Any stranger can ask for any number of refusals, pages and probes. How many got no line; undefined: this one gets none either.
    const notLogged = ctx.state['caller'] === undefined ? mayLogStranger() : 0;
    if (notLogged === undefined) return;
    log.info(
      {
        requestId: ctx.state['requestId'],
        method,
        route,
        status,
        ms: Math.round(seconds * 1e5) / 100,
        ...(notLogged > 0 && { notLogged }),
      },
      'request',
    );
  };
}

/**
 * Lets web pages of these origins call the api (CORS). Browsers keep out the pages of all other origins, and of every
 * origin if the list is empty. Cookies are never allowed, the api has none: a page needs an access token of its own.
 */
function cors(origins: readonly string[]): Koa.Middleware {
  return (ctx, next) => {
    if (origins.length === 0) return next();
    ctx.vary('Origin');
    const origin = ctx.get('origin');
    if (!origins.includes(origin)) return next();
    ctx.set({ 'Access-Control-Allow-Origin': origin, 'Access-Control-Expose-Headers': ANSWER_HEADERS });
    if (ctx.method !== 'OPTIONS' || ctx.get('access-control-request-method') === '') return next();
    ctx.status = 204;
    ctx.set({
      'Access-Control-Allow-Methods': CORS_METHODS,
      'Access-Control-Allow-Headers': REQUEST_HEADERS,
      'Access-Control-Max-Age': String(PREFLIGHT_SECONDS),
    });
    return undefined;
  };
}

function answerErrors(log: Logger): Koa.Middleware {
  return async (ctx, next) => {
    try {
      await next();
    } catch (thrown) {
      const error = asApiError(asBooksUnavailable(asPostgresUnavailable(thrown)));
      const requestId = ctx.state['requestId'] as string;
      if (error.status >= 500) log[error.status === 500 ? 'error' : 'warn']({ requestId, error }, error.errorName);
      ctx.status = error.status;
      ctx.set(error.headers);
      ctx.body = errorEnvelope(error, requestId);
    }
  };
}

function files(probe: Probe, pages: Files): Koa.Middleware {
  return async (ctx, next) => {
    const answer = (await probe(ctx.path)) ?? pages(ctx.path, ctx.req.headers);
    if (!answer) return next();
    const reads = ctx.method === 'GET' || ctx.method === 'HEAD';
    if (!reads) throw new ApiError('method_not_allowed', { headers: { Allow: 'GET, HEAD' } });
    ctx.status = answer.status;
    ctx.type = answer.type;
    const { text } = answer;
    ctx.body = typeof text === 'string' || ctx.method === 'HEAD' ? text : inSlices(text);
    ctx.set(answer.headers ?? {});
  };
}

/** 404 for a path that does not exist, 405 for a method that the path does not take. */
function unknownPath(router: Router): Koa.Middleware {
  return (ctx) => {
    // One search for all methods: anybody may ask for any path.
    const found = new Set(router.match(ctx.path, '').path.flatMap((layer) => layer.methods));
    const allowed = METHODS.filter((method) => found.has(method));
    if (allowed.length === 0) throw new ApiError('route_not_found');
    throw new ApiError('method_not_allowed', { headers: { Allow: allowed.join(', ') } });
  };
}
