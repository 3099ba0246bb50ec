import type Koa from 'koa';
import { koaBody } from 'koa-body';
import { ApiError } from '../../shared/errors.ts';

/** Reads a request's JSON body of at most `limit` bytes; undefined when there is none. */
export function bodyReader(limit: number): (ctx: Koa.Context) => Promise<unknown> {
  const parse = koaBody({
    json: true,
    jsonLimit: limit,
    urlencoded: false,
    text: false,
    multipart: false,
    jsonTypes: ['application/json'],
    onError(error) {
      throw refusal(error, limit);
    },
  });
  return async (ctx) => {
    const hasBody = Number(ctx.get('content-length')) > 0 || ctx.get('transfer-encoding') !== '';
    if (hasBody && !ctx.is('application/json')) throw new ApiError('not_json');
    await parse(ctx, async () => {});
    return (ctx.request as { body?: unknown }).body;
  };
}

function refusal(error: Error & { status?: number }, limit: number): ApiError {
  if (error.message.includes('forbidden prototype')) {
    const message = 'The body holds a key __proto__, which is not allowed anywhere.';
    return new ApiError('invalid_request', { message });
  }
  if (error.status !== 413) return new ApiError('invalid_json', { cause: error });
  // What is left of the body is not read: the connection can't be used again.
  const message = `The body is larger than ${limit} bytes.`;
  return new ApiError('body_too_large', { message, headers: { Connection: 'close' } });
}
