import type { Contract } from '../../../../clients/node/contract.ts';
import { errorOf, isPassing, KeytallyError } from '../../../../clients/node/error.ts';
import { requestOf } from '../../../../clients/node/operations.ts';
import type { PortalContract } from './portal-contract.ts';
import { masked } from './searchable.ts';

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

/** A refusal or failure of the api, with what it said and the request's id; without a status, what the page itself says. */
export { KeytallyError as Problem };

/** What the page itself says of what it was given, and of which fields. */
export const wrong = (message: string, details: { path: string; message: string }[] = []) =>
  new KeytallyError(message, { status: 0, code: 0, details });

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
  const { method, path, body } = requestOf(operation, input);
  // Whatever somebody pasted: no secret stands in an address.
  if (method === 'GET') return send(method, masked(path), { signal });
  const text = body && JSON.stringify(body);
  const answer = await (method === 'POST'
    ? post<Output<O>>(path, text)
    : send<Output<O>>(method, path, { body: text }));
  readAgain();
  return answer;
}

/** Makes the same change of many things, one after the other; every part reads again once they are done. */
export async function callAll<O extends Operation, I extends Input<O>>(
  operation: O,
  inputs: readonly Known<I, O>[],
): Promise<void> {
  try {
    for (const input of inputs) {
      const { method, path, body } = requestOf(operation, input);
      await send(method, path, { body: body && JSON.stringify(body) });
    }
  } finally {
    readAgain();
  }
}

/** The event by which every part of a page reads again what it shows. */
export const CHANGED = 'keytally-changed';

let secretsHeld = 0;

/** Keeps the page as it is while a dialog shows what is shown once, or waits for it: a session may end meanwhile. Gives what ends that. */
export function holdPage(): () => void {
  secretsHeld += 1;
  return () => {
    secretsHeld -= 1;
    readAgain();
  };
}

/** Whether an error says that the session has ended, and the page may go. */
export function hasEnded({ status }: KeytallyError): boolean {
  return status === 401 && secretsHeld === 0;
}

/** Has every part read again, once whoever made the change has gone on: a page that is left reads nothing. */
function readAgain(): void {
  setTimeout(() => dispatchEvent(new Event(CHANGED)));
}

// Of a request without an answer nobody knows whether it was done: its repeat has the same key, and does nothing twice.
const unanswered = new Map<string, string>();

/** Whoever closes a form repeats nothing: what is asked later is asked anew. What had no answer may have been done. */
export function forgetUnanswered(): void {
  if (unanswered.size > 0) readAgain();
  unanswered.clear();
}

async function post<Answer>(path: string, body: string | undefined): Promise<Answer> {
  const request = `${path} ${body}`;
  // Not randomUUID: over plain HTTP browsers have it for localhost alone.
  const key = unanswered.get(request) ?? crypto.getRandomValues(new Uint32Array(4)).join('-');
  unanswered.set(request, key);
  // The same may have been asked anew meanwhile, by another key that waits for its own answer.
  const answered = () => unanswered.get(request) === key && unanswered.delete(request);
  try {
    const answer = await send<Answer>('POST', path, { body, headers: { 'Idempotency-Key': key } });
    answered();
    return answer;
  } catch (error) {
    // Where there is no session the api did not come to look at the key.
    if (error instanceof KeytallyError && !isPassing(error) && error.status !== 401) answered();
    throw error;
  }
}

/** The address that answers an operation that reads. */
export function addressOf(operation: Operation, input: object): string {
  return requestOf(operation, { ...input }).path;
}

/** What stands in the address and begins a session. It is taken out of it and of the history, before anything else happens. */
export function takenEntry(form: RegExp): string {
  const found = form.exec(location.hash || location.search)?.[0].slice(1) ?? '';
  if (found) history.replaceState(null, '', location.pathname);
  return found;
}

const PORTAL = '/portal/session';

/** Signs in with an access token. Nothing in the page keeps it. */
export const signIn = (token: string) =>
  send<{ session: Session }>('POST', SESSION, { headers: { Authorization: `Bearer ${token}` } });
/** Signs in with a code that works once, or with what the provider answered. */
export const enter = (entry: string) =>
  send('POST', `${SESSION}/${entry.startsWith('once_') ? 'code' : 'provided'}`, {
    headers: { 'X-Keytally-Code': entry },
  });
/** The page where people sign in at their provider. */
export const askProvider = () => send<{ url: string }>('POST', `${SESSION}/provider`);
/** The session of this browser. */
export const readSession = () => send<{ session: Session }>('GET', SESSION);
/** Ends the session. */
export const signOut = () => send('DELETE', SESSION);

/** Opens the portal with a link token. Nothing in the page keeps it. */
export const openPortal = (link: string) =>
  send('POST', PORTAL, { headers: { 'X-Keytally-Link': encodeURIComponent(link) } });
/** Ends the session of the portal. */
export const leavePortal = () => send('DELETE', PORTAL);

/** Reads what the api answers as a file. */
export const download = (path: string) => send<Blob>('GET', path, { read: (response) => response.blob() });

type Options<Answer> = {
  body?: string | undefined;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  read?(response: Response): Promise<Answer>;
};

async function send<Answer>(method: string, path: string, options: Options<Answer> = {}): Promise<Answer> {
  const { body, headers, signal = null, read = (response) => response.json() as Promise<Answer> } = options;
  const sent = { ...MARK, ...(body && { 'Content-Type': 'application/json' }), ...headers };
  try {
    const response = await fetch(path, { method, headers: sent, body: body ?? null, signal });
    if (response.ok) return await read(response);
    const error = errorOf({ status: response.status, headers: response.headers, text: await response.text() });
    if (error.code !== 0) throw error;
    // Something between the browser and the api answered, in a form of its own.
    throw new KeytallyError("keytally can't be reached right now; try again.", { status: error.status, code: 0 });
  } catch (error) {
    if (error instanceof KeytallyError) throw error;
    // An answer may also end in its middle.
    const message = 'The server cannot be reached; check your connection and try again.';
    throw new KeytallyError(message, { status: 0, code: 0 }, { cause: error });
  }
}
