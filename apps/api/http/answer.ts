import type Koa from 'koa';
import { TextAnswer } from '../../../shared/contract/route.ts';
import type { ApiRoute } from './route.ts';

/** An answer as it is sent and, for a writing request with an Idempotency-Key, kept. */
export type Answer = { status: number; type: string; text: string };

/** Turns what a handler returned into the answer of its route. */
export function answerOf(route: ApiRoute, result: unknown): Answer {
  const status = route.status ?? 200;
  if (result instanceof TextAnswer) return { status, type: result.type, text: result.text };
  return { status, type: 'application/json', text: JSON.stringify(result) };
}

/** Sends an answer. */
export function send(ctx: Koa.Context, { status, type, text }: Answer): void {
  ctx.status = status;
  ctx.type = type;
  ctx.body = text;
}
