import type { IncomingMessage, RequestListener } from 'node:http';
import { requirePermission } from '../../shared/auth/access-token.ts';
import { fixedHeaders, requestId, type FixedHeaders } from '../../shared/http/headers.ts';
import { logFailures } from '../../shared/http/log-failures.ts';
import { ApiError, asApiError, errorEnvelope } from '../../shared/contract/errors.ts';
import { readPatience } from '../../shared/verification/patience.ts';
import type { Verifier } from '../../shared/verification/verifier.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import { isClient, knowClient } from '../../shared/http/strangers.ts';
import { VERIFY_BODY_LIMIT } from '../../shared/verification/operation.ts';
import { sendAnswer, type Answer } from './answer.ts';
import { makeCalls, type CallOptions } from './calls.ts';
import { makeDocuments, type DocumentOptions } from './documents.ts';
import { GATEWAY_PATH, makeGateway, pathOf, type GatewayOptions } from './gateway/gateway.ts';

type HandlerOptions = Verifier &
  GatewayOptions &
  DocumentOptions &
  Pick<CallOptions, 'holds' | 'cancel' | 'countCall'> & {
    headers: FixedHeaders;
    metrics: Metrics;
  };

// One error for all calls: making one costs more than refusing the call.
const overloaded = new ApiError('overloaded');

/** Handles the requests of the verify server, without a framework between the socket and the script. */
export function makeHandler(options: HandlerOptions): RequestListener {
  const logFailure = logFailures(options.log, options.clock);
  const calls = makeCalls({ ...options, logFailure });
  const documents = makeDocuments(options);
  const gateway = makeGateway(options);

  return (request, response) => {
    const started = options.clock.monotonic();
    const id = requestId(request.headers['x-request-id'] as string | undefined);
    const path = pathOf(request.url ?? '');
    const route = calls.has(path) ? path : path.startsWith(GATEWAY_PATH) ? GATEWAY_PATH : 'none';
    // Refuse here, where it costs least: work for an answer that would come too late delays all the others.
    if (calls.has(path) && !options.hasRoom()) return send(failure(overloaded, id));
    answerTo(request, path, id, started).then(finish, (thrown: unknown) => finish(failure(thrown, id)));

    function finish(answer: Answer): void {
      if (answer.status === 200 && route !== 'none') knowClient(request.socket);
      const turn = isClient(request.socket) ? undefined : options.strangersTurn();
      if (turn) void turn.then(() => send(answer));
      else send(answer);
    }

    function send(answer: Answer): void {
      // Gateways hand refusals on to their clients: how a browser reaches another's host is not ours to say.
      const fixed = route === GATEWAY_PATH ? fixedHeaders : options.headers;
      const isLast = route === GATEWAY_PATH && lacksItsBody(request);
      sendAnswer(response, answer, id, isLast ? { ...fixed, Connection: 'close' } : fixed);
      options.metrics.httpSeconds.observe(
        { method: request.method, route, status: answer.status },
        (options.clock.monotonic() - started) / 1000,
      );
    }
  };

  function failure(thrown: unknown, id: string): Answer {
    const error = asApiError(thrown);
    logFailure(error, id);
    const text = JSON.stringify(errorEnvelope(error, id));
    return { status: error.status, type: 'application/json', text, headers: error.headers };
  }

  /** `from`: when the request came, by our monotonic clock. */
  async function answerTo(request: IncomingMessage, path: string, id: string, from: number): Promise<Answer> {
    const call = calls.get(path);
    if (!call) return path.startsWith(GATEWAY_PATH) ? gateway(request, path, id) : documents(request, path);
    if (request.method !== 'POST') throw new ApiError('method_not_allowed', { headers: { Allow: 'POST' } });
    // Node joins repeated headers into one string; only Set-Cookie is an array.
    const headers = request.headers as Record<string, string | undefined>;
    const clientAddress = options.clientAddress(request.socket.remoteAddress, headers['x-forwarded-for']);
    const caller = await options.authenticate(headers['authorization'], clientAddress);
    requirePermission(caller, 'key:verify');
    const patience = readPatience(headers['x-keytally-timeout-ms'], from);
    const isGone = () => request.socket.readableEnded || request.socket.destroyed;
    return options.telemetry.request({ method: 'POST', route: path, traceparent: headers['traceparent'] }, async () => {
      const turn = options.turn(caller.teamId, Number(headers['content-length'] ?? VERIFY_BODY_LIMIT));
      if (turn) await turn;
      // A function of its own: what waited for its turn is among V8's old objects by now, and what those hold stays with them.
      return call(request, { caller, clientAddress, requestId: id, patience, isGone });
    });
  }
}

/**
 * Whether a check declares a body of which nothing has come. Some gateways copy the end client's Content-Length and send no body:
 * what comes next on the connection would be read as that body, and an end client that chooses the length would choose the policy
 * of the next check.
 */
function lacksItsBody(request: IncomingMessage): boolean {
  return !request.complete && request.readableLength === 0;
}
