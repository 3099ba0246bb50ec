import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { requirePermission } from '../../../shared/auth/access-token.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import { keysOf } from '../../../clients/node/key.ts';
import { rateLimitHeaders, refusalOf, refusedFor, type Refused } from '../../../clients/node/refusal.ts';
import type { Verifier, Verify } from '../../../shared/verification/verifier.ts';
import type { Outcomes } from '../../../shared/verification/outcomes.ts';
import type { Decision } from '../../../shared/verification/decision.ts';
import { ApiError, type ErrorName } from '../../../shared/contract/errors.ts';
import type { AuthenticateFrom } from '../../../shared/auth/failed-authentications.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Telemetry } from '../../../shared/runtime/telemetry.ts';
import { throttle } from '../../../shared/runtime/throttle.ts';
import { isAmbiguousPath } from '../../../shared/values/percent.ts';
import { hideSecrets } from '../../../shared/values/secrets.ts';
import { dialectOf, type Dialect } from './dialect.ts';
import { passHeaders } from './headers.ts';
import { readPolicy, type Policy } from './policy.ts';

export type GatewayOptions = {
  authenticate: AuthenticateFrom;
  verify: Verify;
  turn: Verifier['turn'];
  noteKeyless: Outcomes['noteKeyless'];
  clientAddress(peer: string | undefined, forwardedFor: string | undefined): string;
  telemetry: Telemetry;
  log: Logger;
  clock: Clock;
};
type Answer = { status: number; type: string; text: string; headers: Record<string, string> };

export const GATEWAY_PATH = '/gateway/';

// A gateway that is set up wrongly fails with each request: one line a second says so.
const LOG_EVERY_MS = 1_000;

/**
 * Answers check requests: before each request a gateway asks whether it may pass. The answer is 200 with the key's
 * identity in headers, or the refusal for the end client. Gateways copy the end client's headers, path and query into the
 * check request. So cost and scopes come from the address, before anything that a gateway appends, and from headers that
 * its configuration overwrites. A body is ignored; Node drops it, and the connection stays open, unless nothing of a declared body has come. A mistake of the gateway
 * (a wrong token or policy, an idempotency key for two requests) is a 500 that names no cause.
 */
export function makeGateway(options: GatewayOptions) {
  const { clock } = options;
  const mayLog = throttle(clock, LOG_EVERY_MS);

  return async function gateway(request: IncomingMessage, path: string, requestId: string): Promise<Answer> {
    // The end client wrote it, where a gateway appends the path. A server before verify could resolve it to another policy.
    if (isAmbiguousPath(path)) throw ambiguous;
    try {
      return await decide(request, path, requestId);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status === 500 || error === ambiguous) throw error;
      // End clients may see these answers. They cannot mend the gateway, so only the log has the cause.
      // Nor can they help that the gateway's team asks more often than its quota allows.
      if (error.status === 503 || error.errorName === 'team_too_many_calls')
        throw new ApiError('api_key_undecided', { cause: error });
      const notLogged = mayLog();
      if (notLogged !== undefined) options.log.warn({ requestId, error, notLogged }, 'a gateway is set up wrongly');
      const { status, headers, body } = refusalOf('MISCONFIGURED', { requestId, nowMs: clock.now() });
      return { status, type: 'application/json', text: body, headers };
    }
  };

  async function decide(request: IncomingMessage, path: string, requestId: string): Promise<Answer> {
    const [, name = '', segment = '', appended = ''] = /^\/gateway\/([^/]*)\/?([^/]*)(.*)$/s.exec(path) ?? [];
    const dialect = dialectOf(name);
    const header = (name: string) => request.headers[name] as string | undefined;
    const { original } = dialect;
    const asksFor = pathOf(original ? (header(original.uri) ?? '') : appended.replace(/^\/*/, '/'));
    // The gateway may have chosen the policy by another reading than that of the API, which gets the path as it is.
    if (isAmbiguousPath(asksFor)) {
      if (dialect.only401And403) return { status: 403, type: 'text/plain', text: '', headers: {} };
      throw ambiguous;
    }
    const peer = request.socket.remoteAddress;
    const clientAddress = options.clientAddress(peer, header(dialect.address));
    // Where the gateway names no end client, or may not, it is the gateway's own.
    const ip = clientAddress !== peer && isIP(clientAddress) > 0 ? clientAddress : undefined;
    const caller = await callerOf(header('x-keytally-token'), clientAddress, peer);
    const asked = { method: request.method ?? '', route: GATEWAY_PATH + name, traceparent: header('traceparent') };
    return options.telemetry.request(asked, async () => {
      const turn = options.turn(caller.teamId, 0);
      if (turn) await turn;
      // Only now: a policy takes time to read, and is remembered.
      const { outOfCredits, ...policy } = readPolicy(segment);

      const [key, another] = keysOf(header, request.rawHeaders);
      if (key === undefined || another !== undefined) {
        const reason = key === undefined ? 'NO_KEY' : 'TWO_KEYS';
        options.noteKeyless(caller.teamId, reason);
        return refuse(reason, { dialect, requestId, nowMs: clock.now() });
      }
      const decision = await options.verify({
        caller,
        body: {
          ...policy,
          key,
          route: routeOf(original ? header(original.method) : request.method, asksFor),
          ...(ip && { ip }),
        },
        clientAddress,
        idempotencyKey: header('x-keytally-idempotency-key'),
      });
      const nowMs = clock.now();
      const refused = refusedFor(decision);
      if (refused) return refuse(refused, { dialect, requestId, nowMs, decision, outOfCredits });
      // A key without a billing record holds nothing.
      const { hold } = policy.billing?.hold ? (JSON.parse(decision.body) as { hold?: { id: string } }) : {};
      return { status: 200, type: 'text/plain', text: '', headers: passHeaders(decision, nowMs, hold?.id) };
    });
  }

  async function callerOf(token: string | undefined, clientAddress: string, gatewayAddress = ''): Promise<Caller> {
    try {
      const caller = await options.authenticate(token && `Bearer ${token}`, clientAddress, gatewayAddress);
      requirePermission(caller, 'key:verify');
      return caller;
    } catch (error) {
      const message = error instanceof ApiError && tokenMessages[error.errorName];
      throw message ? new ApiError(error.errorName, { message }) : error;
    }
  }
}

const ambiguous = new ApiError('bad_http', {
  message:
    'Servers read the path differently: send it without a segment "." or "..", "\\", an empty segment at its start or before ";".',
});

const tokenMessages: Partial<Record<ErrorName, string>> = {
  token_missing: "The gateway's configuration must set X-Keytally-Token to an access token.",
  token_unknown: "The gateway's access token (X-Keytally-Token) is unknown, expired or revoked; set a valid one.",
  address_not_allowed: "The gateway's access token (X-Keytally-Token) may not be used from the gateway's address.",
  permission_missing: "The gateway's access token (X-Keytally-Token) lacks the permission key:verify.",
};

/** An address without its query. */
export function pathOf(uri: string): string {
  return uri.split('?', 1)[0]!;
}

function routeOf(method = '', path: string): string {
  return hideSecrets(`${method} ${path}`.replace(/[^ -~]/g, '?')).slice(0, 1024);
}

type Refusing = {
  dialect: Dialect;
  requestId: string;
  nowMs: number;
  decision?: Decision;
  outOfCredits?: Policy['outOfCredits'] | undefined;
};

function refuse(reason: Refused, { dialect, decision, ...asked }: Refusing): Answer {
  const { status, headers, body } = refusalOf(reason, { ...asked, limitedBy: decision?.limitedBy });
  return {
    status: dialect.only401And403 && (status === 402 || status === 429) ? 403 : status,
    type: 'application/json',
    text: body,
    headers: {
      ...headers,
      'X-Keytally-Status': decision?.status ?? 'INVALID',
      'X-Keytally-Reason': reason,
      'X-Keytally-Refused-With': String(status),
      ...rateLimitHeaders(decision?.rateLimit, asked.nowMs),
    },
  };
}
