import type { Contract } from '../../../../clients/node/contract.ts';
import type { PortalContract } from './portal-contract.ts';

type Operations = Contract & PortalContract;

/** The operations of the api, by method and path. */
export type Operation = Exclude<keyof Operations, `${string} as ${string}`>;
export type Input<O extends Operation> = Operations[O]['input'];
export type Output<O extends Operation> = Operations[O]['output'];

/** What the console is told about its session. */
export type Session = {
  tokenId: string;
  tokenName: string;
  permissions: string[];
  workspaceIds?: string[];
  expiresAt?: string;
};

/** A refusal or failure of the api, with what it said and the request's id. */
export class Problem extends Error {
  readonly status: number;
  readonly code: number;
  readonly requestId: string;
  readonly details: { path: string; message: string }[];

  constructor(status: number, answer: Envelope | undefined) {
    const told = answer?.error;
    super(told?.message ?? 'The server cannot be reached; check your connection and try again.');
    this.status = status;
    this.code = told?.code ?? 0;
    this.requestId = told?.requestId ?? '';
    this.details = told?.details ?? [];
  }

  /** What the page itself refuses. */
  static of(message: string): Problem {
    return new Problem(0, { error: { code: 0, message, requestId: '' } });
  }
}

// Something between the browser and the api may answer in a form of its own.
type Envelope = {
  error?: { code: number; message: string; requestId: string; details?: { path: string; message: string }[] };
};

// The api takes a session for a change only with this header, which no page of another origin can send.
const MARK = { 'X-Keytally-Session': '1' };
const SESSION = '/console/session';

// TypeScript takes any field where an object is spread, such as what a form gives: here one that the operation does not know is an error.
type Known<I, O extends Operation> = I & { [Field in Exclude<keyof I, keyof Input<O>>]: never };

/** Calls an operation of the api; path, query and body are one object, as in the Node client. */
export async function call<O extends Operation, I extends Input<O>>(
  operation: O,
  input: Known<I, O>,
  signal?: AbortSignal,
): Promise<Output<O>> {
  const { method, path, address, body } = partsOf(operation, input);
  if (method === 'get') return send(method, address, { signal });
  const answer = await (method === 'post'
    ? post<Output<O>>(path, body)
    : method === 'patch'
      ? send<Output<O>>(method, path, { body })
      : send<Output<O>>(method, address));
  tellChange();
  return answer;
}

/** The event by which every part of a page reads again what it shows. */
export const CHANGED = 'keytally-changed';

// Once whoever made the change has gone on: a page that is left reads nothing.
function tellChange(): void {
  setTimeout(() => dispatchEvent(new Event(CHANGED)));
}

function partsOf(operation: Operation, input: unknown) {
  const [method = '', template = ''] = operation.split(' ');
  const rest = { ...(input as Record<string, unknown>) };
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(rest[name]);
    delete rest[name];
    return encodeURIComponent(value);
  });
  const asked = Object.entries(rest).filter(([, value]) => value !== undefined && value !== '');
  const query = new URLSearchParams(asked.map(([name, value]) => [name, String(value)]));
  return { method, path, address: asked.length > 0 ? `${path}?${query}` : path, body: JSON.stringify(rest) };
}

// Of a request without an answer nobody knows whether it was done: its repeat has the same key, and does nothing twice.
const unanswered = new Map<string, string>();

/** Whoever closes a form repeats nothing: what is asked later is asked anew. What had no answer may have been done. */
export function forgetUnanswered(): void {
  if (unanswered.size > 0) tellChange();
  unanswered.clear();
}

async function post<Answer>(path: string, body: string): Promise<Answer> {
  const request = `${path} ${body}`;
  // Not randomUUID: over plain HTTP browsers have it for localhost alone.
  const key = unanswered.get(request) ?? crypto.getRandomValues(new Uint32Array(4)).join('-');
  unanswered.set(request, key);
  // The same may have been asked anew meanwhile, by another key that waits for its own answer.
  const answered = () => unanswered.get(request) === key && unanswered.delete(request);
  try {
    const answer = await send<Answer>('post', path, { body, headers: { 'Idempotency-Key': key } });
    answered();
    return answer;
  } catch (error) {
    if (error instanceof Problem && isDecided(error)) answered();
    throw error;
  }
}

const IDEMPOTENCY_BUSY = 40905;

// Not while the first request of the key still runs, nor where the api did not come to look at the key.
function isDecided({ status, code }: Problem): boolean {
  return status >= 400 && status < 500 && ![401, 429].includes(status) && code !== IDEMPOTENCY_BUSY;
}

/** The address that answers an operation that reads. */
export function addressOf(operation: Operation, input: object): string {
  return partsOf(operation, input).address;
}

/** Reads what the api answers as a file. */
export const download = (path: string) => send<Blob>('get', path, {}, (response) => response.blob());

const PORTAL = '/portal/session';

/** Signs in with an access token. Nothing in the page keeps it. */
export const signIn = (token: string) =>
  send<{ session: Session }>('post', SESSION, { headers: { Authorization: `Bearer ${token}` } });
/** The session of this browser. */
export const readSession = () => send<{ session: Session }>('get', SESSION);
/** Ends the session. */
export const signOut = () => send('delete', SESSION);

/** Opens the portal with a link token. Nothing in the page keeps it. */
export const openPortal = (link: string) =>
  send('post', PORTAL, { headers: { 'X-Keytally-Link': encodeURIComponent(link) } });
/** Ends the session of the portal. */
export const leavePortal = () => send('delete', PORTAL);

type Options = { body?: string; headers?: Record<string, string>; signal?: AbortSignal | undefined };

async function send<Answer>(
  method: string,
  path: string,
  { body, headers, signal }: Options = {},
  read: (response: Response) => Promise<Answer> = (response) => response.json(),
): Promise<Answer> {
  const sent = { ...MARK, ...(body && { 'Content-Type': 'application/json' }), ...headers };
  try {
    const request = { method: method.toUpperCase(), headers: sent, body: body ?? null, signal: signal ?? null };
    const response = await fetch(path, request);
    if (response.ok) return await read(response);
    throw new Problem(response.status, (await response.json().catch(() => undefined)) as Envelope);
  } catch (error) {
    // An answer may also end in its middle.
    throw error instanceof Problem || signal?.aborted ? error : new Problem(0, undefined);
  }
}
