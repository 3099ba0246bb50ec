import type { Contract } from './contract.ts';
import type { KeytallyError } from './error.ts';
import { operations, requestOf, VERIFY } from './operations.ts';
import { send, type CallOptions, type Sender } from './send.ts';

export type ClientOptions = {
  /** Address of the api; for a client that only verifies, verify's will do. */
  url: string;
  /** Address of verify, where it is another. */
  verifyUrl?: string;
  /** An access token. To verify, it needs `key:verify` alone. */
  token: string;
  /** After so long a call fails, whatever was tried; preset 30 s. */
  timeoutMs?: number;
  /** The same for a verification, which a request of yours waits for; preset 1 s. */
  verifyTimeoutMs?: number;
  /** In place of the runtime's own. */
  fetch?: typeof fetch;
  /** Told what failed before it is tried again. */
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
  /** Verifies an API key and debits its cost, once, however often it had to be sent. */
  verify: Call<typeof VERIFY>;
  /** Whether keytally can verify now. */
  ready(): Promise<boolean>;
};

const TIMEOUT_MS = 30_000;
const VERIFY_TIMEOUT_MS = 1_000;

/** A client of keytally: each operation is a function that takes its path, query and body as one object. */
export function keytally(options: ClientOptions): Keytally {
  const { url, verifyUrl = url, token, timeoutMs = TIMEOUT_MS, verifyTimeoutMs = VERIFY_TIMEOUT_MS } = options;
  const [api, verify] = [baseOf(url), baseOf(verifyUrl)];
  // Called as a function of its own: some runtimes refuse a fetch that is called as another object's method.
  const sender: Sender = {
    token,
    fetch: options.fetch ?? ((...args) => fetch(...args)),
    onRetry: options.onRetry ?? (() => {}),
  };

  const call =
    (operation: string, base: string, presetMs: number) =>
    async (input?: Record<string, unknown>, callOptions: CallOptions = {}): Promise<unknown> => {
      const { path, ...sent } = requestOf(operation, input);
      return send(sender, { ...sent, url: base + path }, { timeoutMs: presetMs, ...callOptions });
    };
  const mapped = <T, R>(of: Record<string, T>, to: (one: T) => R) =>
    Object.fromEntries(Object.entries(of).map(([name, one]) => [name, to(one)]));
  const groups = mapped<Record<string, string>, object>(operations, (group) =>
    mapped(group, (operation) => call(operation, api, timeoutMs)),
  );

  return {
    ...groups,
    verify: call(VERIFY, verify, verifyTimeoutMs),
    async ready() {
      const probe = { method: 'GET', url: `${verify}/readyz`, accept: 'application/json', body: undefined };
      return send(sender, probe, { timeoutMs: verifyTimeoutMs }).then(
        () => true,
        (error: KeytallyError) => !error.isAway,
      );
    },
  } as unknown as Keytally;
}

type Page = { nextCursor?: string };
type Item<Output> = { [Name in keyof Output]-?: Output[Name] extends (infer One)[] ? One : never }[keyof Output];

/** All that a list holds, page by page as they are needed: `for await (const key of each(client.apiKeys.list, { id }))`. */
export async function* each<List extends (...args: never[]) => Promise<Page>>(
  list: List,
  ...[input]: Parameters<List> extends [input: infer Given, ...rest: unknown[]] ? [input: Given] : [input?: object]
): AsyncGenerator<Item<Awaited<ReturnType<List>>>, void, undefined> {
  const next = list as unknown as (input: object) => Promise<Page & Record<string, unknown>>;
  for (let cursor: string | undefined; ;) {
    const page = await next({ ...(input as object | undefined), ...(cursor !== undefined && { cursor }) });
    for (const items of Object.values(page)) if (Array.isArray(items)) yield* items;
    cursor = page.nextCursor;
    if (cursor === undefined) return;
  }
}

function baseOf(url: string): string {
  const { protocol, href } = new URL(url);
  if (!/^https?:$/.test(protocol)) throw new TypeError(`${url} is no address over HTTP`);
  return href.replace(/\/+$/, '');
}
