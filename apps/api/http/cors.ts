import type Koa from 'koa';

const PREFLIGHT_SECONDS = 600;
const METHODS = 'GET, POST, PATCH, DELETE';
const REQUEST_HEADERS = 'Authorization, Content-Type, Idempotency-Key, X-Request-Id';
const ANSWER_HEADERS = 'Retry-After, X-Request-Id';

/**
 * Lets web pages of these origins call the api (CORS). Browsers keep out the pages of all other origins, and of every
 * origin if the list is empty. Cookies are never allowed, the api has none: a page needs an access token of its own.
 */
export function cors(origins: readonly string[]): Koa.Middleware {
  return (ctx, next) => {
    if (origins.length === 0) return next();
    ctx.vary('Origin');
    const origin = ctx.get('origin');
    if (!origins.includes(origin)) return next();
    ctx.set({ 'Access-Control-Allow-Origin': origin, 'Access-Control-Expose-Headers': ANSWER_HEADERS });
    if (ctx.method !== 'OPTIONS' || ctx.get('access-control-request-method') === '') return next();
    ctx.status = 204;
    ctx.set({
      'Access-Control-Allow-Methods': METHODS,
      'Access-Control-Allow-Headers': REQUEST_HEADERS,
      'Access-Control-Max-Age': String(PREFLIGHT_SECONDS),
    });
    return undefined;
  };
}
