import type { KeptUsage, VerifyInput } from './kept-usage.ts';
import type { HeaderOf } from './key.ts';
import { unknownOption } from './given.ts';
import type { Refusal, RefusalBody } from './refusal.ts';

/** What a request costs, as decimal text, and the name under which its usage is counted. */
export type Cost = { usage: string; usageName?: string };
/** For how many seconds the cost is held, and what becomes of it where nobody captures it in time. */
export type HoldOptions = { expiresIn: number; onExpiry?: 'release' | 'charge' };
export type RequestedScopes = NonNullable<VerifyInput['requestedScopes']>;
type Given<Request, Value> = Value | ((request: Request) => Value | Promise<Value>);

export type GuardOptions<Request> = {
  /** What a request costs; default nothing. A function must give a cost for every request: `undefined` is an error. */
  cost?: Given<Request, string | Cost>;
  /**
   * Holds the cost as the most that the request may cost, for `capture(request, usage)` in the handler. An answer that ends
   * without a capture releases it; where the end client left, a handler that ends does. Not together with `open`.
   */
  hold?: Given<Request, HoldOptions>;
  /** The scopes that the key must have been granted; default none. */
  scopes?: Given<Request, RequestedScopes>;
  /** Recorded with the usage; default the method and the path. */
  route?: Given<Request, string>;
  /** The end client's address, for allow lists; default the framework's. */
  ip?: Given<Request, string | undefined>;
  /**
   * The Idempotency-Key under which a request is debited; default a new one. Requests of an API key with the same one are debited once
   * within 60 s: give it only where a repeated request does no new work. `undefined` is the default.
   */
  idempotencyKey?: (request: Request) => string | undefined | Promise<string | undefined>;
  /** 429: who is out of credits, or has no billing record, is refused with 429 and `Retry-After`; default 402 or 403 without. */
  outOfCredits?: 429;
  /** Makes the body of a refusal, such as `problemJson`; default `{"error": …}`. */
  refusalBody?: (refusal: Refusal, request: Request) => RefusalBody;
  /** Lets requests pass while keytally is unavailable, and keeps their usage; default: they are refused with 503. */
  open?: KeptUsage;
  /**
   * Called when a request is refused with 500 because of a mistake on this side (a wrong access token, a wrong cost), or
   * with 503 because keytally is unavailable. Default: `console.error`, at most one line a second.
   */
  onError?: (error: Error, request: Request) => void;
};

/** A request as a framework shows it. */
export type Seen = {
  method: string;
  url: string;
  ip: string | undefined;
  header: HeaderOf;
  rawHeaders?: readonly string[] | undefined;
};

/** An option, or what an option's function gave, is not what it must be. */
export class OptionError extends TypeError {
  override readonly name = 'OptionError';
}

const names: Record<keyof GuardOptions<never>, true> = {
  cost: true,
  hold: true,
  scopes: true,
  route: true,
  ip: true,
  idempotencyKey: true,
  outOfCredits: true,
  refusalBody: true,
  open: true,
  onError: true,
};

/** Throws where a program would give away what it sells: with a wrong cost, or with `cots`, which would be free, it does not start. */
export function checkOptions<Request>(options: GuardOptions<Request>): void {
  const { cost, hold, open, outOfCredits } = options;
  const unknown = unknownOption(options, names);
  if (unknown) throw new OptionError(unknown);
  // One that is there but undefined, such as an unset environment variable, must not mean "free".
  if ('cost' in options && typeof cost !== 'function') costOf(cost);
  if (outOfCredits !== undefined && outOfCredits !== 429)
    wrong('outOfCredits', outOfCredits, 'it must be 429, or left out for 402 and 403');
  if (hold && open) throw new OptionError('hold is there beside open, which keeps costs that were not held');
}

/** What keytally is asked to verify for a request. Throws an `OptionError` when a function gives a wrong cost. */
export async function verifyInputOf<Request>(
  key: string,
  options: GuardOptions<Request>,
  request: Request,
  { method, url, ip }: Seen,
): Promise<VerifyInput> {
  const { cost = '0', route = `${method} ${url.split('?', 1)[0]}` } = options;
  const value = async <Value>(given: Given<Request, Value>): Promise<Value> =>
    typeof given === 'function' ? (given as (request: Request) => Promise<Value>)(request) : given;
  // Null is refused by keytally, where undefined would mean "no scope" or "no hold".
  const orNull = async <Value>(given: Given<Request, Value>) => (await value(given)) ?? (null as Value);
  return {
    key,
    billing: { ...costOf(await value(cost)), ...('hold' in options && { hold: await orNull(options.hold) }) },
    ...('scopes' in options && { requestedScopes: await orNull(options.scopes) }),
    route: routeOf(await value(route)),
    ip: addressOf(options.ip ? await value(options.ip) : ip),
  };
}

/** The Idempotency-Key that the options give a request; undefined: a new one. */
export async function idempotencyKeyOf<Request>(
  options: GuardOptions<Request>,
  request: Request,
): Promise<string | undefined> {
  const given = await options.idempotencyKey?.(request);
  if (given === undefined || /^[!-~]{1,255}$/.test(given)) return given;
  return wrong('idempotencyKey', given, 'it must be 1 to 255 visible ASCII characters');
}

const LONGEST_ROUTE = 1024;
const MOST_CREDITS = 9_000_000_000;

function costOf(cost: string | Cost | undefined): Cost {
  const given = typeof cost === 'object' && cost !== null ? cost : { usage: cost };
  const { usage } = given;
  if (typeof usage !== 'string' || !/^\d{1,10}(\.\d{1,6})?$/.test(usage) || Number(usage) > MOST_CREDITS)
    return wrong('cost', usage, 'it must be decimal text such as "1" or "0.25"');
  return given as Cost;
}

function routeOf(route: string): string {
  const printable = route.replace(/[^ -~]/g, '?');
  if (printable.length <= LONGEST_ROUTE) return printable;
  // Cut at a "/": keytally hides a secret that is whole, and could not know half of one.
  return printable.slice(0, printable.lastIndexOf('/', LONGEST_ROUTE - 1) + 1 || LONGEST_ROUTE);
}

function wrong(name: string, given: unknown, expected: string): never {
  const shown = typeof given === 'string' ? `"${given.slice(0, 100)}"` : `${String(given)} (${typeof given})`;
  throw new OptionError(`${name} is ${shown}; ${expected}`);
}

/**
 * An address that keytally accepts. Where there is none, or a header holds something else, it is 0.0.0.0, which only a
 * list that allows every address contains. If it were left out, keytally would check this server's own address.
 */
function addressOf(text = ''): string {
  const octet = '(?:0|[1-9]\\d?|1\\d\\d|2[0-4]\\d|25[0-5])';
  if (new RegExp(`^${octet}(?:\\.${octet}){3}$`).test(text)) return text;
  return text.includes(':') && /^[\da-f.:]+$/i.test(text) && URL.canParse(`http://[${text}]`) ? text : '0.0.0.0';
}
