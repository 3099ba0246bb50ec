import type { IncomingMessage, RequestListener } from 'node:http';
import { parse } from 'node:querystring';
import { requirePermission } from '../../shared/auth/access-token.ts';
import { makeDocs } from '../../shared/http/docs.ts';
import { fixedHeaders, type FixedHeaders } from '../../shared/http/headers.ts';
import { inSlices } from '../../shared/http/in-slices.ts';
import { logFailures, type LogFailure } from '../../shared/http/log-failures.ts';
import { ApiError } from '../../shared/contract/errors.ts';
import type { Verifier } from '../../shared/verification/verifier.ts';
import type { AuthenticateFrom } from '../../shared/auth/failed-authentications.ts';
import type { CountCall } from '../../shared/auth/team-rates.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import { openApi } from '../../shared/contract/openapi.ts';
import type { Probe } from '../../shared/http/probes.ts';
import { readJson } from '../../shared/http/read-json.ts';
import { requestId } from '../../shared/http/request-id.ts';
import { isClient, knowClient } from '../../shared/http/strangers.ts';
import type { Operation } from '../../shared/contract/route.ts';
import { object } from '../../shared/contract/schema-kinds.ts';
import { bodyValidator, parameterValidator } from '../../shared/contract/validate.ts';
import { STRANGERS, STRANGERS_BYTES } from '../../shared/verification/process-turns.ts';
import { VERIFY_BATCH_PATH, verifyBatchOperation } from '../../shared/verification/operation.ts';
import { VERIFY_BODY_LIMIT, VERIFY_PATH, verifyBody, verifyOperation } from '../../shared/verification/operation.ts';
import { makeBatch } from './batch.ts';
import { makeFailure } from './failure.ts';
import { gatewayPaths } from './gateway/openapi.ts';
import { GATEWAY_PATH, makeGateway } from './gateway/gateway.ts';

type HandlerOptions = Verifier & {
  authenticate: AuthenticateFrom;
  countCall: CountCall;
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

// One error for all calls: making one costs more than refusing the call.
const overloaded = new ApiError('overloaded');

const readVerifyBody = bodyValidator(verifyBody);
const readNoQuery = parameterValidator(object({}));

/** Handles the requests of the verify server, without a framework between the socket and the script. */
export function makeHandler(options: HandlerOptions): RequestListener {
  const logFailure = logFailures(options.log);
  const answer = makeAnswer(options, logFailure);
  const failure = makeFailure(logFailure);

  return (request, response) => {
    const started = performance.now();
    const id = requestId(request.headers['x-request-id'] as string | undefined);
    const path = pathOf(request.url ?? '');
    const route = verifies(path) ? path : path.startsWith(GATEWAY_PATH) ? GATEWAY_PATH : 'none';
    // Refuse here, where it costs least: work for an answer that would come too late delays all the others.
    if (verifies(path) && !options.hasRoom()) return send(failure(overloaded, id));
    answer(request, path, id).then(finish, (thrown: unknown) => finish(failure(thrown, id)));

    function finish(answer: Answer): void {
      if (answer.status === 200 && route !== 'none') knowClient(request.socket);
      const turn =
        isClient(request.socket) || !options.hasRoom(STRANGERS) ? undefined : options.turn(STRANGERS, STRANGERS_BYTES);
      if (turn) void turn.then(() => send(answer));
      else send(answer);
    }

    function send({ status, type, text, headers }: Answer): void {
      response.writeHead(status, {
        // Gateways hand refusals on to their clients: how a browser reaches another's host is not ours to say.
        ...(route === GATEWAY_PATH ? fixedHeaders : options.headers),
        'Content-Type': type,
        'Content-Length': Buffer.byteLength(text),
        'X-Request-Id': id,
        ...headers,
      });
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

function makeAnswer(options: HandlerOptions, logFailure: LogFailure) {
  const operations: Operation[] = [verifyOperation, verifyBatchOperation];
  const document = () => openApi(operations, [{ url: options.publicUrl, description: 'Verify' }], gatewayPaths);
  const docs = options.hasDocs ? makeDocs(document()) : () => undefined;
  const gateway = makeGateway(options);
  const batch = makeBatch({ ...options, logFailure });

  return function answer(request: IncomingMessage, path: string, id: string): Promise<Answer> {
    if (verifies(path)) return verify(request, path, id);
    return path.startsWith(GATEWAY_PATH) ? gateway(request, path, id) : probeOrDocs(request, path);
  };

  async function probeOrDocs(request: IncomingMessage, path: string): Promise<Answer> {
    const found = (await options.probe(path)) ?? docs(path, request.headers);
    if (!found) throw new ApiError('route_not_found');
    if (request.method === 'GET' || request.method === 'HEAD') return found;
    throw new ApiError('method_not_allowed', { headers: { Allow: 'GET, HEAD' } });
  }

  async function verify(request: IncomingMessage, path: string, id: string): Promise<Answer> {
    if (request.method !== 'POST') throw new ApiError('method_not_allowed', { headers: { Allow: 'POST' } });
    // Node joins repeated headers into one string; only Set-Cookie is an array.
    const headers = request.headers as Record<string, string | undefined>;
    const clientAddress = options.clientAddress(request.socket.remoteAddress, headers['x-forwarded-for']);
    const caller = await options.authenticate(headers['authorization'], clientAddress);
    requirePermission(caller, 'key:verify');
    const turn = options.turn(caller.teamId, Number(headers['content-length'] ?? VERIFY_BODY_LIMIT));
    if (turn) await turn;
    if (path === VERIFY_BATCH_PATH) return batch(request, { caller, clientAddress, requestId: id });
    const body = readVerifyBody(await readJson(request, VERIFY_BODY_LIMIT));
    if (request.url !== VERIFY_PATH) readNoQuery({ ...parse(request.url!.slice(VERIFY_PATH.length + 1)) });
    const decision = await options.verify({ caller, body, clientAddress, idempotencyKey: headers['idempotency-key'] });
    return { status: 200, type: 'application/json', text: decision.body };
  }
}

function verifies(path: string): boolean {
  return path === VERIFY_PATH || path === VERIFY_BATCH_PATH;
}

function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end < 0 ? url : url.slice(0, end);
}
