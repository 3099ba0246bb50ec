import type { Contract } from './contract.ts';
import type { KeytallyError } from './error.ts';
import { ofVerify, operations, requestOf, VERIFY, VERIFY_BATCH } from './operations.ts';
import { noteClock, systemClock, type Clock } from './clock.ts';
import { callBack, checkedTimeout, unknownOption } from './given.ts';
import { makeGatherer } from './gather.ts';
import { nodeTransport } from './node-transport.ts';
import { JSON_TYPE, repeat, send, type CallOptions, type Sender } from './send.ts';
import { settled } from './settling.ts';
import { fetchTransport, type Transport } from './transport.ts';

/** `url` and `token` may be `undefined` in type, as `process.env.NAME` is: `keytally()` throws and names what is missing. */
export type ClientOptions = {
  /** Address of verify for a client that only verifies, as guards do; else the api's, which answers verifications too. */
  url: string | undefined;
  /** Address of verify; default `url`. */
  verifyUrl?: string | undefined;
  /** An access token. To verify keys, it needs the permission `key:verify` alone. */
  token: string | undefined;
  /** A call fails after this time, retries included; default 30 s. */
  timeoutMs?: number;
  /** The same for a verification, which one of your requests waits for; default 1 s. */
  verifyTimeoutMs?: number;
  /** Sends the requests. Default on Node: its own HTTP, which costs a third; elsewhere the runtime's `fetch`. */
  fetch?: typeof fetch;
  /** Called with the error of a failed attempt, before the next attempt. */
  onRetry?: (error: KeytallyError) => void;
};

type Operation = keyof Contract;
type Input<Name extends Operation> = Contract[Name]['input'];
type Call<Name extends Operation> = (
  ...args: {} extends Input<Name>
    ? [input?: Input<Name>, options?: CallOptions]
    : [input: Input<Name>, options?: CallOptions]
) => Promise<Contract[Name]['output']>;
type Calls<Names> = { [Name in keyof Names]: Call<Names[Name] & Operation> };

export type Keytally = { [Group in keyof typeof operations]: Calls<(typeof operations)[Group]> } & {
  /** Verifies an API key and debits its cost: once, even if the request had to be sent several times. */
  verify: Call<typeof VERIFY>;
  /** Verifies up to 100 API keys, each by itself. A verification without an `idempotencyKey` gets one, so each is debited once. */
  verifyBatch(
    input: Input<typeof VERIFY_BATCH>,
    options?: Omit<CallOptions, 'idempotencyKey'>,
  ): Promise<Contract[typeof VERIFY_BATCH]['output']>;
  /** Whether keytally can verify keys now, if only of some shards; where its readiness has a port of its own (`OPS_PORT`), whether verify answers. */
  ready(): Promise<boolean>;
  /**
   * Waits until what guards held is settled for every request that is over. Call it once your server is closed, before the process
   * ends; each capture and each release takes `timeoutMs` at most.
   */
  drain(): Promise<void>;
};

const TIMEOUT_MS = 30_000;
const VERIFY_TIMEOUT_MS = 1_000;

const optionNames: Record<keyof ClientOptions, true> = {
  url: true,
  verifyUrl: true,
  token: true,
  timeoutMs: true,
  verifyTimeoutMs: true,
  fetch: true,
  onRetry: true,
};

/** A client of keytally: each operation is a function that takes its path, query and body as one object. */
export function keytally(options: ClientOptions): Keytally {
  return makeClient(options, systemClock);
}

export function makeClient(options: ClientOptions, clock: Clock): Keytally {
  const unknown = unknownOption(options, optionNames);
  if (unknown) throw new TypeError(`keytally(): ${unknown}`);
  const timeoutMs = checkedTimeout('timeoutMs', options.timeoutMs ?? TIMEOUT_MS);
  const verifyTimeoutMs = checkedTimeout('verifyTimeoutMs', options.verifyTimeoutMs ?? VERIFY_TIMEOUT_MS);
  const api = baseUrl('url', options.url);
  const verify = options.verifyUrl === undefined ? api : baseUrl('verifyUrl', options.verifyUrl);
  const sender: Sender = {
    token: checkedToken(options.token),
    transport: transportOf(options.fetch),
    onRetry: (error) => options.onRetry && callBack('onRetry', options.onRetry, error),
    clock,
  };
  const gather = makeGatherer({ ...sender, url: verify + requestOf(VERIFY).path });

  const call =
    (operation: string, defaultMs = timeoutMs) =>
    async (input?: Record<string, unknown>, callOptions: CallOptions = {}): Promise<unknown> => {
      const { path, ...request } = requestOf(operation, input);
      const hasIdempotencyKeys = ofVerify.has(operation);
      const url = (hasIdempotencyKeys ? verify : api) + path;
      const timeoutMs = callOptions.timeoutMs ?? defaultMs;
      return send(sender, { ...request, url, hasIdempotencyKeys }, { ...callOptions, timeoutMs });
    };
  const mapValues = <T, R>(object: Record<string, T>, map: (value: T) => R) =>
    Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value)]));
  const groups = mapValues<Record<string, string>, object>(operations, (group) =>
    mapValues(group, (operation) => call(operation)),
  );

  const client = {
    ...groups,
    drain: () => settled(client),
    async verify(input: object = {}, callOptions: CallOptions = {}) {
      const options = { ...callOptions, timeoutMs: callOptions.timeoutMs ?? verifyTimeoutMs };
      const { idempotencyKey = crypto.randomUUID(), requestId } = options;
      return repeat(sender, options, (timeoutMs) => gather({ input, idempotencyKey, requestId, timeoutMs }));
    },
    async verifyBatch({ verifications }: Input<typeof VERIFY_BATCH>, callOptions: CallOptions = {}) {
      const keyed = verifications.map((one) => ({ ...one, idempotencyKey: one.idempotencyKey ?? crypto.randomUUID() }));
      return call(VERIFY_BATCH, verifyTimeoutMs)({ verifications: keyed }, callOptions);
    },
    async ready() {
      const probe = { method: 'GET', url: `${verify}/servingz`, accept: JSON_TYPE, body: undefined };
      return send(sender, probe, { timeoutMs: verifyTimeoutMs }).then(
        (told) => typeof told === 'object' && told !== null && !Array.isArray(told),
        // Whatever else answers there is not keytally.
        (error: KeytallyError) => !error.isAway && error.code !== 0,
      );
    },
  } as unknown as Keytally;
  noteClock(client, clock);
  return client;
}

type Page = { nextCursor?: string };
type Item<Output> = { [Name in keyof Output]-?: Output[Name] extends (infer One)[] ? One : never }[keyof Output];

/** Every item of a list; it fetches each page when it is needed: `for await (const key of each(client.apiKeys.list, { id }))`. */
export async function* each<List extends (...args: never[]) => Promise<Page>>(
  list: List,
  ...[input]: Parameters<List> extends [input: infer Given, ...rest: unknown[]] ? [input: Given] : [input?: object]
): AsyncGenerator<Item<Awaited<ReturnType<List>>>, void, undefined> {
  const fetchPage = list as unknown as (input: object) => Promise<Page & Record<string, unknown>>;
  for (let cursor: string | undefined; ;) {
    const page = await fetchPage({ ...(input as object | undefined), ...(cursor !== undefined && { cursor }) });
    for (const items of Object.values(page)) if (Array.isArray(items)) yield* items;
    cursor = page.nextCursor;
    if (cursor === undefined) return;
  }
}

function transportOf(given: typeof fetch | undefined): Transport {
  // The arrow keeps fetch a plain function call: some runtimes refuse a fetch that is called as another object's method.
  return given ? fetchTransport(given) : (nodeTransport() ?? fetchTransport((...args) => fetch(...args)));
}

// The messages repeat no value: they end up in logs, and a token may be given as url by mistake.
function baseUrl(option: 'url' | 'verifyUrl', value = ''): string {
  if (/^https?:[^@]+$/i.test(value) && URL.canParse(value)) return new URL(value).href.replace(/\/+$/, '');
  throw new TypeError(
    `keytally(): ${option} is ${value ? 'wrong' : 'missing'}; give verify's address (KEYTALLY_VERIFY_URL) for guards, or the api's (KEYTALLY_API_URL) for everything else: http:// or https://, without a user name or a password`,
  );
}

function checkedToken(token = ''): string {
  if (/^[!-~]+$/.test(token)) return token;
  throw new TypeError(
    `keytally(): token is ${token ? 'wrong' : 'missing'}; give an access token, e.g. KEYTALLY_TOKEN, without spaces and line breaks`,
  );
}
