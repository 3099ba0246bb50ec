import type Koa from 'koa';
import { CacheableAnswer, TextAnswer } from '../../../shared/contract/route.ts';
import { namesTag } from '../../../shared/http/headers.ts';
import type { ApiRoute } from './route.ts';

/** An answer as it is sent and, for a writing request with an Idempotency-Key, kept. */
export type Answer = { status: number; type: string; text: string; name?: string | undefined };

/** Turns what a handler returned into the answer of its route. */
export function answerOf(route: ApiRoute, result: unknown): Answer {
  const status = route.status ?? 200;
  if (result instanceof TextAnswer) return { status, type: result.type, text: result.text, name: result.name };
  return { status, type: 'application/json', text: JSON.stringify(result) };
}

/** Sends an answer. */
export function send(ctx: Koa.Context, answer: Answer | CacheableAnswer): void {
  if (answer instanceof CacheableAnswer) return sendCacheable(ctx, answer);
  const { status, type, text, name } = answer;
  ctx.status = status;
  if (name !== undefined) ctx.attachment(name);
  ctx.type = type;
  ctx.body = text;
}

function sendCacheable(ctx: Koa.Context, { json, etag, cacheControl }: CacheableAnswer): void {
  ctx.status = 200;
  ctx.set('ETag', etag);
  ctx.set('Cache-Control', cacheControl);
  // Not Koa's `ctx.fresh`: it says no to every request with Cache-Control: no-cache, which fetch adds to each conditional one.
  if (namesTag(ctx.get('if-none-match'), etag)) {
    ctx.status = 304;
    return;
  }
  ctx.type = 'application/json';
  ctx.body = json;
}
