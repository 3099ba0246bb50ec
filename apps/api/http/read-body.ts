import type Koa from 'koa';
import { koaBody } from 'koa-body';
import { ApiError } from '../../../shared/contract/errors.ts';
import { bodyTooLarge, hasJsonBody, parseJson } from '../../../shared/http/read-json.ts';

/**
 * Makes the reader of JSON bodies of at most `limit` bytes; it gives undefined when a request has no body. koa-body
 * reads the bytes. The checks are ours, and the same as those of verify: koa-body would decompress a body, repair broken
 * UTF-8 and choose a parser by the content type.
 */
export function bodyReader(limit: number): (ctx: Koa.Context) => Promise<unknown> {
  const readBytes = koaBody({
    text: true,
    textTypes: ['application/json'],
    textLimit: limit,
    // No encoding: raw-body, which koa-body reads with, then gives the bytes as they are.
    encoding: '',
    json: false,
    urlencoded: false,
    multipart: false,
    onError(error, ctx) {
      // raw-body pauses a request that it gives up. What is still to come is read and dropped: a client that goes on
      // sending would not read the answer.
      ctx.req.resume();
      const { type } = error as { type?: string };
      throw type === 'entity.too.large' ? bodyTooLarge(limit) : new ApiError('bad_http');
    },
  });

  return async (ctx) => {
    if (!hasJsonBody(ctx.req.headers, limit)) return undefined;
    // What it says is "identity" in some spelling; koa-body knows only the lower-case one.
    delete ctx.req.headers['content-encoding'];
    await readBytes(ctx, async () => {});
    const bytes = ctx.request.body as unknown;
    if (!Buffer.isBuffer(bytes)) throw new ApiError('not_json');
    return parseJson(bytes);
  };
}
