import { Agent, request } from 'node:https';
import { Agent as PlainAgent, request as plainRequest, type IncomingMessage } from 'node:http';
import { type LookupFunction, isIP } from 'node:net';
import { once } from 'node:events';
import { callbackify } from 'node:util';
import { abortAfter, type Clock } from '../../shared/runtime/clock.ts';
import {
  allowedFor,
  readWebhookTarget,
  type AllowedTarget,
  type WebhookTarget,
  isPublicAddress,
} from '../../shared/values/webhook-target.ts';
import { Resolver } from 'node:dns/promises';
import type { LookupAddress } from 'node:dns';

/** What came of one try: an answer, or why there was none. */
export type Outcome = {
  status?: number;
  answer?: string;
  error?: string;
  /** No request left: the other side knows nothing of it. */
  isUnsent?: true;
  durationMs: number;
  /** What `Retry-After` says, in seconds. */
  retryAfter?: string | undefined;
};

type Call = { teamId: string; url: string; headers: Record<string, string>; body: string };

const ANSWER_BYTES = 65_536;
const KEPT_BYTES = 1_024;
// The team sees it, and what answers inside may not be meant for it.
const KEPT_BYTES_INSIDE = 200;
const MOST_ERROR = 256;
// A handshake costs both sides more than all else of a delivery.
const keeping = { keepAlive: true, timeout: 4_000, maxFreeSockets: 32, maxCachedSessions: 0 };

/**
 * Posts to a webhook's URL, and never throws. Each connection goes to an address that was checked for it, under the name for TLS: what
 * the name says a moment later does not matter. It follows no redirect and asks no proxy. A connection serves its name again for some
 * seconds, those to targets inside apart: by no name does a team reach one that another team may have.
 */
export function makeCall(resolve: Resolve, allowedTargets: readonly AllowedTarget[], clock: Clock, withinMs = 10_000) {
  const lookup = callbackify(resolve) as unknown as LookupFunction;
  // Without the last, a lookup could be asked for one address alone.
  const outside = new Agent({ ...keeping, lookup, autoSelectFamily: true });
  const inside = { 'https:': new Agent(keeping), 'http:': new PlainAgent(keeping) };
  return async function call({ teamId, url, headers, body }: Call): Promise<Outcome> {
    const started = clock.monotonic();
    const took = () => Math.round(clock.monotonic() - started);
    const signal = abortAfter(clock, withinMs);
    let status: number | undefined;
    let isUnsent = true;
    const leaves = () => void (isUnsent = false);
    try {
      const target = readWebhookTarget(url, allowedFor(teamId, allowedTargets));
      if (typeof target === 'string') throw new Error(`the URL ${target}`);
      const response = await post(target, body, {
        headers,
        signal,
        leaves,
        agent: target.isAllowed ? inside[target.url.protocol as keyof typeof inside] : outside,
      });
      status = response.statusCode!;
      const answer = await readStart(response, target.isAllowed ? KEPT_BYTES_INSIDE : KEPT_BYTES);
      return { status, answer, durationMs: took(), retryAfter: response.headers['retry-after'] };
    } catch (error) {
      const why = signal.aborted ? `no whole answer within ${withinMs / 1000} s` : describe(error);
      return { ...(status !== undefined && { status }), ...(isUnsent && { isUnsent }), error: why, durationMs: took() };
    }
  };
}

type Given = { headers: Record<string, string>; signal: AbortSignal; leaves: () => void; agent: Agent | PlainAgent };

async function post(target: WebhookTarget, body: string, { leaves, ...given }: Given): Promise<IncomingMessage> {
  const [send, opened] = target.url.protocol === 'http:' ? [plainRequest, 'connect'] : [request, 'secureConnect'];
  const sent = send(target.url, {
    ...given,
    method: 'POST',
    headers: { ...given.headers, 'content-length': Buffer.byteLength(body) },
    rejectUnauthorized: true,
    ...(isIP(target.host) === 0 && { servername: target.host }),
  });
  sent.once('socket', (socket) => (sent.reusedSocket ? leaves() : socket.once(opened, leaves)));
  sent.end(body);
  try {
    const [response] = (await once(sent, 'response', { signal: given.signal })) as [IncomingMessage];
    return response;
  } catch (error) {
    // The receiver may have closed a kept connection before it saw the request, which is no failure of its own.
    if (!sent.reusedSocket || given.signal.aborted) throw error;
    return post(target, body, { leaves, ...given });
  }
}

async function readStart(response: IncomingMessage, most: number): Promise<string> {
  const kept: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    if (bytes < most) kept.push(chunk.subarray(0, most - bytes));
    bytes += chunk.length;
    // Ends the connection with the answer.
    if (bytes >= ANSWER_BYTES) break;
  }
  // Postgres takes no NUL.
  return Buffer.concat(kept).toString('utf8').replaceAll('\0', '\ufffd');
}

function describe(error: unknown): string {
  // Of several addresses that could not be connected to, the first tells enough.
  const one = error instanceof AggregateError ? (error.errors[0] as Error) : (error as Error);
  return one.message.replaceAll('\0', '').slice(0, MOST_ERROR);
}

/** Gives the addresses to connect to. Throws where a name has none, or one that not everybody can reach. */
export type Resolve = (name: string) => Promise<LookupAddress[]>;

/** Name servers, which are asked for one name. */
export type NameServers = Pick<Resolver, 'resolve4' | 'resolve6'>;

const MOST_ADDRESSES = 16;

/**
 * Asks name servers itself: the system's own function takes one of a few threads for each question, and a name whose servers
 * never answer would hold up all others. One inside address among them refuses the name: it is a trick, or a mistake.
 */
export function makeResolve(newResolver: () => NameServers = askNameServers): Resolve {
  return async function resolve(name) {
    const resolver = newResolver();
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (found.length === 0) throw new Error(`the name ${name} has no address`);
    if (!found.every(isPublicAddress)) throw new Error(`the name ${name} has an address that is not public`);
    return found.slice(0, MOST_ADDRESSES).map((address) => ({ address, family: isIP(address) }));
  };
}

// Made anew each time, since it keeps the name servers that the system has at that moment.
function askNameServers(): NameServers {
  return new Resolver({ timeout: 2_000, tries: 2 });
}
