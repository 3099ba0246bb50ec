import type { Keytally } from './client.ts';
import { KeytallyError } from './error.ts';
import type { KeptUsage, VerifyInput } from './kept-usage.ts';
import { keysOf, type HeaderOf } from './key.ts';
import { rateLimitHeaders, refusalOf, refusedFor, type Refusal, type Refused } from './refusal.ts';
import type { Verification } from './status.ts';

/** What a request costs, as decimal text, and what is counted. */
export type Cost = { usage: string; usageName?: string };
export type RequestedScopes = NonNullable<VerifyInput['requestedScopes']>;
type Given<Request, Value> = Value | ((request: Request) => Value | Promise<Value>);

export type GuardOptions<Request> = {
  /** What a request costs; preset nothing. */
  cost?: Given<Request, string | Cost>;
  /** What the key must have been granted. */
  scopes?: Given<Request, RequestedScopes>;
  /** Recorded with the usage; preset the method and the path. */
  route?: Given<Request, string>;
  /** The end client's address, for allow lists; preset what the framework says. */
  ip?: Given<Request, string | undefined>;
  /** Lets requests pass while keytally can't be reached, and keeps their usage; preset: they are refused (503). */
  open?: KeptUsage;
};

/** Whose request it is: the verification's answer, or `UNDECIDED` where `open` let it pass. */
export type Identity = Omit<Verification, 'status'> & { status: 'VALID' | 'UNDECIDED' };

/** A request as a framework shows it. */
export type Seen = { method: string; url: string; ip: string | undefined; header: HeaderOf };
/** Headers for the answer, and the answer itself where the request is refused. */
export type Outcome = { headers: Record<string, string>; refusal?: Refusal };

const identities = new WeakMap<object, Identity>();

/** Whose request it is, in a handler behind a guard; takes what the guard was given (Koa's and Hono's context, else the request). */
export function identityOf(request: object): Identity {
  const identity = identities.get(request);
  if (!identity) throw new Error('no keytally guard stands before this handler');
  return identity;
}

/** Decides whether a request may pass; if so, `identityOf(request)` knows it from here on. */
export async function decide<Request extends object>(
  client: Keytally,
  options: GuardOptions<Request>,
  request: Request,
  seen: Seen,
): Promise<Outcome> {
  const requestId = requestIdOf(seen.header('x-request-id'));
  const refuse = (why: Refused): Outcome => ({ headers: {}, refusal: refusalOf(why, requestId) });
  const [key, another] = keysOf(seen.header);
  if (key === undefined) return refuse('NO_KEY');
  if (another !== undefined) return refuse('TWO_KEYS');
  // Longer than any key of keytally's, or of other letters: nothing to ask for.
  if (!/^[!-~]{1,256}$/.test(key)) return refuse('INVALID');

  const input = await verification(key, options, request, seen);
  const idempotencyKey = crypto.randomUUID();
  const { open } = options;
  const passUndecided = (sentAtMs?: number): Outcome => {
    if (!open?.keep({ input, idempotencyKey, ...(sentAtMs !== undefined && { sentAtMs }) })) return refuse('AWAY');
    identities.set(request, { status: 'UNDECIDED' });
    return { headers: {} };
  };
  if (open?.away) return passUndecided();

  const sentAtMs = Date.now();
  let answer: Verification;
  try {
    answer = await client.verify(input, { idempotencyKey, requestId });
  } catch (error) {
    if (error instanceof KeytallyError && error.isAway) return passUndecided(sentAtMs);
    // Not the end client's fault, and not to be answered with the status that the error has for us.
    throw new Error('keytally has refused to verify a key', { cause: error });
  }
  const headers = rateLimitHeaders(answer.rateLimit, Date.now());
  const refused = refusedFor(answer.status, answer.reason);
  if (refused) return { ...refuse(refused), headers };
  identities.set(request, { ...answer, status: 'VALID' });
  return { headers };
}

async function verification<Request>(
  key: string,
  options: GuardOptions<Request>,
  request: Request,
  { method, url, ip }: Seen,
): Promise<VerifyInput> {
  const { cost, scopes, route = `${method} ${url.split('?', 1)[0]}` } = options;
  const value = async <Value>(given: Given<Request, Value>): Promise<Value> =>
    typeof given === 'function' ? (given as (request: Request) => Promise<Value>)(request) : given;
  const costs = await value(cost ?? '0');
  return {
    key,
    billing: typeof costs === 'string' ? { usage: costs } : costs,
    requestedScopes: scopes && [...(await value(scopes))],
    route: (await value(route)).replace(/[^ -~]/g, '?').slice(0, 1024),
    ip: addressOf(options.ip ? await value(options.ip) : ip),
  };
}

/**
 * An address that keytally takes. Where there is none, or what a header made up, it is one that no allow list has but one
 * of all addresses: if it were left out, keytally would look at this server's own.
 */
function addressOf(text = ''): string {
  const octet = '(?:0|[1-9]\\d?|1\\d\\d|2[0-4]\\d|25[0-5])';
  if (new RegExp(`^${octet}(?:\\.${octet}){3}$`).test(text)) return text;
  return text.includes(':') && URL.canParse(`http://[${text}]`) ? text : '0.0.0.0';
}

function requestIdOf(given: string | null | undefined): string {
  return given && /^[!-~]{1,128}$/.test(given) ? given : crypto.randomUUID();
}
