import type { IncomingMessage, RequestListener } from 'node:http';
import { parse } from 'node:querystring';
import { requirePermission } from '../../shared/auth/access-token.ts';
import { makeDocs } from '../../shared/http/docs.ts';
import { fixedHeaders, type FixedHeaders } from '../../shared/http/headers.ts';
import { inSlices } from '../../shared/http/in-slices.ts';
import { ApiError, errorEnvelope } from '../../shared/contract/errors.ts';
import type { Verifier } from '../../shared/verification/verifier.ts';
import type { AuthenticateFrom } from '../../shared/auth/failed-authentications.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import { throttle } from '../../shared/runtime/throttle.ts';
import { openApi } from '../../shared/contract/openapi.ts';
import type { Probe } from '../../shared/http/probes.ts';
import { readJson } from '../../shared/http/read-json.ts';
import { requestId } from '../../shared/http/request-id.ts';
import { knowClient } from '../../shared/http/strangers.ts';
import type { Operation } from '../../shared/contract/route.ts';
import { object } from '../../shared/contract/schema-kinds.ts';
import { bodyValidator, parameterValidator } from '../../shared/contract/validate.ts';
import { VERIFY_BODY_LIMIT, VERIFY_PATH, verifyBody, verifyOperation } from '../../shared/verification/operation.ts';
import { gatewayPaths } from './gateway/openapi.ts';
import { GATEWAY_PATH, makeGateway } from './gateway/gateway.ts';

type HandlerOptions = Verifier & {
  authenticate: AuthenticateFrom;
  clientAddress(peer: string | undefined, forwardedFor: string | undefined): string;
  probe: Probe;
  /** Whether it serves /docs and /openapi.json. */
  hasDocs: boolean;
  headers: FixedHeaders;
  metrics: Metrics;
  log: Logger;
  publicUrl: string;
};
type Answer = { status: number; type: string; text: string | Buffer; headers?: Record<string, string> };

// While Redis is unavailable every call fails the same way: one line a second says so.
const LOG_EVERY_MS = 1_000;
// One error for all calls: making one costs more than refusing the call.
const overloaded = new ApiError('overloaded');

const readVerifyBody = bodyValidator(verifyBody);
const readNoQuery = parameterValidator(object({}));

/** Handles the requests of the verify server, without a framework between the socket and the script. */
export function makeHandler(options: HandlerOptions): RequestListener {
  const answer = makeAnswer(options);
  const failure = makeFailure(options.log);

  return (request, response) => {
    const started = performance.now();
    const id = requestId(request.headers['x-request-id'] as string | undefined);
    const path = pathOf(request.url ?? '');
    // Refuse here, where it costs least: work for an answer that would come too late delays all the others.
    if (path === VERIFY_PATH && !options.hasRoom()) return send(failure(overloaded, id));
    answer(request, path, id).then(send, (thrown: unknown) => send(failure(thrown, id)));

    function send({ status, type, text, headers }: Answer): void {
      const route = path === VERIFY_PATH ? VERIFY_PATH : path.startsWith(GATEWAY_PATH) ? GATEWAY_PATH : 'none';
      response.writeHead(status, {
        // Gateways hand refusals on to their clients: how a browser reaches another's host is not ours to say.
        ...(route === GATEWAY_PATH ? fixedHeaders : options.headers),
        'Content-Type': type,
        'Content-Length': Buffer.byteLength(text),
        'X-Request-Id': id,
        ...headers,
      });
      if (status === 200 && route !== 'none') knowClient(request.socket);
      if (request.method === 'HEAD') response.end();
      else if (typeof text === 'string') response.end(text);
      else inSlices(text).pipe(response);
      options.metrics.httpSeconds.observe(
        { method: request.method, route, status },
        (performance.now() - started) / 1000,
      );
    }
  };
}

function makeAnswer(options: HandlerOptions) {
  const operations: Operation[] = [verifyOperation];
  const document = () => openApi(operations, [{ url: options.publicUrl, description: 'Verify' }], gatewayPaths);
  const docs = options.hasDocs ? makeDocs(document()) : () => undefined;
  const gateway = makeGateway(options);

  return function answer(request: IncomingMessage, path: string, id: string): Promise<Answer> {
    if (path === VERIFY_PATH) return verify(request);
    return path.startsWith(GATEWAY_PATH) ? gateway(request, path, id) : probeOrDocs(request, path);
  };

  async function probeOrDocs(request: IncomingMessage, path: string): Promise<Answer> {
    const found = (await options.probe(path)) ?? docs(path, request.headers);
    if (!found) throw new ApiError('route_not_found');
    if (request.method === 'GET' || request.method === 'HEAD') return found;
    throw new ApiError('method_not_allowed', { headers: { Allow: 'GET, HEAD' } });
  }

  async function verify(request: IncomingMessage): Promise<Answer> {
    if (request.method !== 'POST') throw new ApiError('method_not_allowed', { headers: { Allow: 'POST' } });
    // Node joins repeated headers into one string; only Set-Cookie is an array.
    const headers = request.headers as Record<string, string | undefined>;
    const clientAddress = options.clientAddress(request.socket.remoteAddress, headers['x-forwarded-for']);
    const caller = await options.authenticate(headers['authorization'], clientAddress);
    requirePermission(caller, 'key:verify');
    const turn = options.turn(caller.teamId, Number(headers['content-length'] ?? VERIFY_BODY_LIMIT));
    if (turn) await turn;
    const body = readVerifyBody(await readJson(request, VERIFY_BODY_LIMIT));
    if (request.url !== VERIFY_PATH) readNoQuery({ ...parse(request.url!.slice(VERIFY_PATH.length + 1)) });
    const decision = await options.verify({ caller, body, clientAddress, idempotencyKey: headers['idempotency-key'] });
    return { status: 200, type: 'application/json', text: decision.body };
  }
}

function makeFailure(log: Logger) {
  const mayLog = throttle(LOG_EVERY_MS);

  return function failure(thrown: unknown, requestId: string): Answer {
    const error = thrown instanceof ApiError ? thrown : new ApiError('internal', { cause: thrown });
    if (error.status === 500) log.error({ requestId, error }, error.errorName);
    // How many failures got no line since the last one; undefined: this one gets none either.
    const skipped = error.status > 500 ? mayLog() : undefined;
    if (skipped !== undefined) log.warn({ requestId, error, notLogged: skipped }, error.errorName);
    const text = JSON.stringify(errorEnvelope(error, requestId));
    return { status: error.status, type: 'application/json', text, headers: error.headers };
  };
}

function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end < 0 ? url : url.slice(0, end);
}
