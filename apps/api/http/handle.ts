import type Koa from 'koa';
import { koaBody } from 'koa-body';
import { bearerToken, requirePermission } from '../../../shared/auth/access-token.ts';
import { networkOf } from '../../../shared/auth/failed-authentications.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { ExportAnswer } from '../../../shared/contract/route.ts';
import { bodyValidator, parameterValidator } from '../../../shared/contract/validate.ts';
import { idempotencyKey, namesTag } from '../../../shared/http/headers.ts';
import { bodyTooLarge, hasJsonBody, parseJson } from '../../../shared/http/read-json.ts';
import { knowClient } from '../../../shared/http/strangers.ts';
import { makeSlots } from '../../../shared/verification/slots.ts';
import { withTimeout } from '../../../shared/runtime/timeout.ts';
import { booksUntil } from '../../../shared/stores/clickhouse.ts';
import { asTeam } from '../../../shared/stores/postgres.ts';
import { auditClient, operationName } from '../resources/record.ts';
import { describeRequest, type Repeatable } from './idempotency.ts';
import type { AnyCall, ApiRoute, HandleOptions } from './route.ts';
import type { HeaderOf } from './session-cookie.ts';
import { answerOf, writeInTransaction, writeTooLate, type Answer, type WriteProgress } from './write-transaction.ts';

const BODY_LIMIT = 64 * 1024;
// Signed bodies are read before anybody is recognised: so many at once.
const SIGNED_AT_ONCE = 32;
const signedBodies = makeSlots(SIGNED_AT_ONCE);
const NOBODY: Caller = { tokenId: '', teamId: '', permissions: new Set(), workspaceIds: [] };

/**
 * Turns a route into middleware: authenticate, check the permission, read and validate the request, run the handler (in
 * a transaction if the route writes), answer. It reads nothing of a stranger's body.
 */
export function handle(route: ApiRoute, options: HandleOptions): Koa.Middleware {
  const readParams = route.params && parameterValidator(route.params);
  const readQuery = parameterValidator(route.query ?? { type: 'object', additionalProperties: false });
  const readBody = bodyReader(route.bodyLimit ?? BODY_LIMIT);
  const validateBody = route.body && bodyValidator(route.accepts ?? route.body);
  const verifies = route.permission === 'key:verify';
  const needsToken = route.permission !== undefined || route.anyToken === true || Boolean(route.portal ?? route.enters);
  const isKnown = needsToken || route.signed === true;
  // A verification needs no connection to Postgres.
  const takesTurn = isKnown && !verifies;

  return async (ctx) => {
    const { clock } = options.services;
    const progress: WriteProgress = { stage: 'begun' };
    const over = new AbortController();
    const until = clock.monotonic() + options.deadlineMs;
    const deadline = { leftMs: () => Math.max(0, until - clock.monotonic()), over: over.signal };
    const answering = answerTo(ctx, progress, deadline);
    answering.catch((error: unknown) => noteDenied(ctx, error));
    const answer = await withTimeout(clock, deadline.leftMs(), answering, () => {
      over.abort();
      return tooLate(ctx, progress);
    });
    if (progress.cookie !== undefined) ctx.set('Set-Cookie', progress.cookie);
    if (route.alternative) ctx.vary('Accept');
    // An export has no turn and no deadline: it may take minutes, and few are made at a time.
    if (answer instanceof ExportAnswer) return options.sendExport(ctx, (ctx.state['caller'] as Caller).teamId, answer);
    send(ctx, answer);
  };

  async function answerTo(
    ctx: Koa.Context,
    progress: WriteProgress,
    deadline: Deadline,
  ): Promise<Answer | ExportAnswer> {
    const header = headerOf(ctx);
    const clientAddress = addressOf(ctx);
    const signed = route.signed ? await authorizeSigned(ctx, clientAddress) : undefined;
    const caller = signed?.caller ?? (needsToken ? await authorize(ctx, clientAddress) : NOBODY);
    // Strangers choose no traces.
    const traceparent = needsToken ? header('traceparent') : undefined;
    return options.telemetry.request({ method: ctx.method, route: route.path, traceparent }, async () => {
      // An optional body that is left out is the same as an empty object.
      const bytes = signed ? signed.bytes : validateBody && (await readBody(ctx));
      const json = bytes && parseJson(bytes);
      const body = validateBody?.(json === undefined && route.bodyOptional ? {} : json);
      const call = {
        ...options.services,
        books: booksUntil(options.services.books, deadline.over),
        leftMs: deadline.leftMs,
        sql: isKnown ? asTeam(options.teamSql, caller.teamId) : options.sql,
        changed: () => {},
        setCookie: (cookie: string) => void (progress.cookie = cookie),
        caller,
        params: readParams?.(ctx['params']),
        query: readQuery({ ...ctx.query }),
        body,
        requestId: ctx.state['requestId'] as string,
        clientAddress,
        header,
        accepts: (types: string[]) => ctx.accepts(types),
      };
      const repeatable = route.writes && !signed ? repeatableOf(ctx, caller, body) : undefined;
      const work = () =>
        route.writes
          ? writeInTransaction(route, call, { ...options, progress, repeatable })
          : answerReading(route, call);
      if (!takesTurn) return work();
      const answer = await options.turns.inTurn(takerOf(caller), () => {
        // It was answered while it waited.
        if (progress.stage === 'given up') throw new ApiError('deadline');
        return work();
      });
      if (!(answer instanceof ExportAnswer)) options.turns.countUnsent(caller, Buffer.byteLength(answer.text), ctx.res);
      return answer;
    });
  }

  async function authorize(ctx: Koa.Context, clientAddress: string): Promise<Caller> {
    const secret = verifies ? undefined : sessionOf(ctx);
    ctx.state['session'] = secret;
    const bySession = route.portal === 'link' ? 'link' : route.portal ? 'portal' : 'session';
    const by = secret !== undefined ? (route.enters ?? bySession) : verifies ? 'verification' : 'token';
    const caller = await options.authenticate[by](secret ?? ctx.get('authorization'), clientAddress);
    admit(ctx, caller);
    return caller;
  }

  /** Who signed the body, by a secret that its path names. What has the wrong form or time is not even read. */
  async function authorizeSigned(ctx: Koa.Context, clientAddress: string): Promise<{ caller: Caller; bytes: Buffer }> {
    let bytes: Buffer | undefined;
    const read = async () =>
      (bytes ??= (await signedBodies.during(networkOf(clientAddress), () => readBody(ctx))) ?? Buffer.alloc(0));
    const { pid: sourceId = '' } = ctx['params'] as Record<string, string>;
    const signature = headerOf(ctx)('stripe-signature');
    const caller = await options.authenticate.source({ sourceId, signature, read }, clientAddress);
    admit(ctx, caller);
    return { caller, bytes: await read() };
  }

  function admit(ctx: Koa.Context, caller: Caller): void {
    ctx.state['caller'] = caller;
    knowClient(ctx.req.socket);
    for (const permission of [route.permission, route.alsoPermission])
      if (permission) requirePermission(caller, permission);
    if (takesTurn) {
      options.limitCalls(caller);
      options.turns.requireRoom(takerOf(caller));
    }
  }

  /** The secret of a session. A customer has one of the portal, or the link token that begins one; neither counts for anything else. */
  function sessionOf(ctx: Koa.Context): string | undefined {
    const { sessionCookies, portalCookies, providerCookies } = options.services;
    const header = headerOf(ctx);
    if (route.enters) {
      sessionCookies.requireOwnPage(header);
      // What a provider answered counts for the browser that asked.
      const asked = route.enters === 'provider' ? providerCookies.read(ctx.method, header) : '';
      if (asked === undefined) throw new ApiError('session_ended');
      return `${asked} ${header('x-keytally-code') ?? ''}`;
    }
    if (!route.portal) return sessionCookies.read(ctx.method, header);
    const isLink = route.portal === 'link';
    if (isLink) portalCookies.requireOwnPage(header);
    const secret = isLink ? header('x-keytally-link') : portalCookies.read(ctx.method, header);
    if (!secret) throw new ApiError('portal_ended');
    return secret;
  }

  function addressOf(ctx: Koa.Context): string {
    return options.clientAddress(ctx.req.socket.remoteAddress, ctx.get('x-forwarded-for'));
  }

  function noteDenied(ctx: Koa.Context, error: unknown): void {
    if (!(error instanceof ApiError) || (error.status !== 401 && error.status !== 403)) return;
    options.deniedAttempts.note({
      caller: ctx.state['caller'] as Caller | undefined,
      authorization: ctx.get('authorization'),
      operation: operationName(route),
      errorCode: error.code,
      requestId: ctx.state['requestId'] as string,
      client: auditClient(addressOf(ctx), headerOf(ctx)('user-agent')),
    });
  }

  // Called after the body was validated: a body of unlimited depth cannot be turned into text.
  function repeatableOf(ctx: Koa.Context, caller: Caller, body: unknown): Repeatable | undefined {
    const key = route.method === 'post' ? idempotencyKey(headerOf(ctx)('idempotency-key')) : undefined;
    if (route.idempotencyKeyRequired && key === undefined) throw new ApiError('idempotency_key_missing');
    if (key === undefined) return undefined;
    const request = { method: route.method, path: ctx.path, body };
    const session = ctx.state['session'] as string | undefined;
    // Of two sessions of one token, none gets the other's answers: neither could open them.
    return session === undefined
      ? describeRequest(caller, bearerToken(ctx.get('authorization')), key, request)
      : describeRequest(caller, session, `${session} ${key}`, request);
  }
}

/** Reads headers by their lower-case names. Node joins repeated ones into one string; only Set-Cookie is an array. */
function headerOf({ req }: Koa.Context): HeaderOf {
  return (name) => req.headers[name] as string | undefined;
}

type Deadline = { leftMs(): number; over: AbortSignal };

// All customers of a team are one in the turns, and each payment source is: they never take those of its own servers and people.
function takerOf(caller: Caller): Caller {
  if (caller.source) return { ...caller, tokenId: caller.source.id };
  return caller.portal ? { ...caller, tokenId: 'portal' } : caller;
}

// A request that has not fully arrived by the deadline has stored nothing.
function tooLate(ctx: Koa.Context, progress: WriteProgress): ApiError {
  if (!ctx.req.complete) return new ApiError('request_timeout', { headers: { Connection: 'close' } });
  return writeTooLate(progress);
}

async function answerReading(route: ApiRoute, call: AnyCall): Promise<Answer | ExportAnswer> {
  const result: unknown = await route.handle(call);
  return result instanceof ExportAnswer ? result : answerOf(route, result);
}

function send(ctx: Koa.Context, { status, type, text, name, headers = {} }: Answer): void {
  ctx.status = status;
  ctx.set(headers);
  // Not Koa's `ctx.fresh`: it says no to every request with Cache-Control: no-cache, which fetch adds to each conditional one.
  if (headers['ETag'] !== undefined && namesTag(ctx.get('if-none-match'), headers['ETag'])) {
    ctx.status = 304;
    return;
  }
  if (name !== undefined) ctx.attachment(name);
  ctx.type = type;
  ctx.body = text;
}

// Makes the reader of bodies of at most `limit` bytes that shall be JSON; it gives undefined when a request has none. koa-body
// reads the bytes. The checks are ours, and the same as those of verify: koa-body would decompress a body, repair broken
// UTF-8 and choose a parser by the content type.
function bodyReader(limit: number): (ctx: Koa.Context) => Promise<Buffer | undefined> {
  const readBytes = koaBody({
    text: true,
    textTypes: ['application/json'],
    textLimit: limit,
    // No encoding: raw-body, which koa-body reads with, then gives the bytes as they are.
    encoding: '',
    json: false,
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
    return bytes;
  };
}
