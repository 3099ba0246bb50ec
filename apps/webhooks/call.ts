import { Agent, request, type RequestOptions } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { type LookupFunction, isIP } from 'node:net';
import { once } from 'node:events';
import { abortAfter, type Clock } from '../../shared/runtime/clock.ts';
import {
  allowedFor,
  readWebhookTarget,
  type AllowedTarget,
  type WebhookTarget,
  isPublicAddress,
} from '../../shared/values/webhook-target.ts';
import { Resolver, lookup } from 'node:dns/promises';

/** What came of one try: an answer, or why there was none. */
export type Outcome = { status?: number; answer?: string; error?: string; durationMs: number };

type Call = { teamId: string; url: string; headers: Record<string, string>; body: string };

const ANSWER_BYTES = 65_536;
const KEPT_BYTES = 1_024;
// The team sees it, and what answers inside may not be meant for it.
const KEPT_BYTES_INSIDE = 200;
const MOST_ERROR = 256;
// A handshake costs both sides more than all else of a delivery.
const KEEP_CONNECTION_MS = 4_000;
const MOST_KEPT_FOR_ONE = 32;

/**
 * Posts to a webhook's URL, and never throws. It connects to an address that was checked, under the name for TLS: what the name
 * says a moment later does not matter. It follows no redirect and asks no proxy. A connection serves again for some seconds, to the
 * same name, where the check of that moment gives the very same addresses.
 */
export function makeCall(resolve: Resolve, allowedTargets: readonly AllowedTarget[], clock: Clock, withinMs = 10_000) {
  const agent = new CheckedAgent({
    keepAlive: true,
    timeout: KEEP_CONNECTION_MS,
    maxFreeSockets: MOST_KEPT_FOR_ONE,
    maxCachedSessions: 0,
  });
  return async function call({ teamId, url, headers, body }: Call): Promise<Outcome> {
    const started = clock.monotonic();
    const took = () => Math.round(clock.monotonic() - started);
    const signal = abortAfter(clock, withinMs);
    let status: number | undefined;
    try {
      const target = readWebhookTarget(url, allowedFor(teamId, allowedTargets));
      if (typeof target === 'string') throw new Error(`the URL ${target}`);
      const addresses = await inTime(signal, resolve(target, signal));
      const response = await post(target, { headers, body, addresses, signal, agent });
      status = response.statusCode!;
      const answer = await readStart(response, target.isAllowed ? KEPT_BYTES_INSIDE : KEPT_BYTES);
      return { status, answer, durationMs: took() };
    } catch (error) {
      const why = signal.aborted ? `no whole answer within ${withinMs / 1000} s` : describe(error);
      return { ...(status !== undefined && { status }), error: why, durationMs: took() };
    }
  };
}

/** Keeps connections apart by the addresses that were checked for them, too. */
class CheckedAgent extends Agent {
  override getName(options: RequestOptions & { checked?: string } = {}): string {
    return `${super.getName(options)}:${options.checked}`;
  }
}

type Post = { headers: Record<string, string>; body: string; addresses: Address[]; signal: AbortSignal; agent: Agent };

async function post(target: WebhookTarget, given: Post): Promise<IncomingMessage> {
  const { headers, body, addresses, signal, agent } = given;
  const options: RequestOptions & { checked: string } = {
    method: 'POST',
    headers: { ...headers, 'content-length': Buffer.byteLength(body) },
    agent,
    signal,
    lookup: only(addresses),
    checked: addresses
      .map(({ address }) => address)
      .toSorted()
      .join(),
    rejectUnauthorized: true,
    ...(isIP(target.host) === 0 && { servername: target.host }),
  };
  const sent = request(target.url, options);
  sent.end(body);
  try {
    const [response] = (await once(sent, 'response', { signal })) as [IncomingMessage];
    return response;
  } catch (error) {
    // The receiver may have closed a kept connection before it saw the request, which is no failure of its own.
    if (!sent.reusedSocket || signal.aborted) throw error;
    return post(target, { ...given, agent: new Agent({ keepAlive: false, maxCachedSessions: 0 }) });
  }
}

function only(addresses: Address[]): LookupFunction {
  return (_, { all }, callback) => {
    if (all) callback(null, addresses);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  };
}

/** Reads an answer as far as we read any, and gives the start of it. */
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

function inTime<Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> {
  return Promise.race([work, once(signal, 'abort').then(() => Promise.reject(new Error('late')))]);
}

function describe(error: unknown): string {
  // Of several addresses that could not be connected to, the first tells enough.
  const one = error instanceof AggregateError ? (error.errors[0] as Error) : (error as Error);
  return one.message.replaceAll('\0', '').slice(0, MOST_ERROR);
}

export type Address = { address: string; family: 4 | 6 };

/** Gives the addresses to connect to. Throws where there is none, or one that not everybody can reach. */
export type Resolve = (target: WebhookTarget, signal: AbortSignal) => Promise<Address[]>;

/** Name servers, which are asked for one name. */
export type NameServers = {
  resolve4(name: string): Promise<string[]>;
  resolve6(name: string): Promise<string[]>;
  cancel(): void;
};

const ASK_WITHIN_MS = 2_000;
const TIMES = 2;
const MOST_ADDRESSES = 16;

/**
 * Asks name servers itself: the system's own function takes one of a few threads for each question, and a name whose servers
 * never answer would hold up all others. One inside address among them refuses the name: it is a trick, or a mistake. Targets
 * that the operator allows are looked up as the system does, with its file of hosts.
 */
export function makeResolve(newResolver: () => NameServers = askNameServers): Resolve {
  return async function resolve({ host, isAllowed }, signal) {
    if (isAllowed) return lookUp(host);
    const resolver = newResolver();
    signal.addEventListener('abort', () => resolver.cancel(), { once: true });
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (found.length === 0) throw new Error(`the name ${host} has no address`);
    if (!found.every(isPublicAddress)) throw new Error(`the name ${host} has an address that is not public`);
    return found.slice(0, MOST_ADDRESSES).map((address) => ({ address, family: isIP(address) as 4 | 6 }));
  };
}

async function lookUp(host: string): Promise<Address[]> {
  const found = await lookup(host, { all: true });
  return found.map(({ address, family }) => ({ address, family: family as 4 | 6 }));
}

function askNameServers(): NameServers {
  return new Resolver({ timeout: ASK_WITHIN_MS, tries: TIMES });
}
