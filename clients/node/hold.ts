import type { Keytally } from './client.ts';
import type { Contract } from './contract.ts';
import { KeytallyError } from './error.ts';
import { noteSettling } from './settling.ts';

type Captured = Contract['post /api/v1/usage/capture']['output'];

/** The hold of a request, until it is captured or released. */
type Held = {
  id: string | undefined;
  client: Keytally;
  onError: (error: unknown) => void;
  /** Is over once no capture is under way, which keytally may refuse. */
  captures: Promise<unknown>;
  /** It is captured, or may be. */
  isCaptured?: true;
  isEnding?: true;
  isAnswered?: true;
  hasLeft?: true;
  isHandled?: true;
  costAtEnd?: () => string;
};

/** What a guard tells of a request with a hold. */
export type HoldEvents = {
  /** The answer has ended. */
  answered(): void;
  /** The end client went away before that. The handler may still work, and capture. */
  left(): void;
  /** The handler has ended. */
  handled(): void;
};

const holds = new WeakMap<object, Held>();
// Nothing else is: a cost of "" is a mistake, which keytally refuses.
const ZERO = /^0+(\.0+)?$/;
const CONFLICT = 409;

/**
 * Debits what a request did cost, for a handler behind a guard with `hold`, and releases the rest. It takes what the guard got, as
 * `identityOf` does. Call it before the answer ends: then what was not captured is released. It works after the end client went
 * away, too. Of a key without a billing record nothing is held, and `undefined` comes back.
 */
export async function capture(request: object, usage: string): Promise<Captured | undefined> {
  const held = heldFor(request, 'capture');
  if (held.id === undefined) return undefined;
  const capturing = held.client.holds.capture({ holdId: held.id, usage });
  const noted = capturing.then(
    () => (held.isCaptured = true),
    (error: unknown) => {
      if (!hasCapturedNothing(error)) held.isCaptured = true;
    },
  );
  held.captures = Promise.all([held.captures, noted]);
  noteSettling(held.client, noted);
  return capturing;
}

/**
 * Captures once the answer has ended, also because the end client went away: for streams, whose cost grows until then. `cost` is
 * called then, or at once where the end client is gone; a cost of 0 releases. Should it fail, or the capture, the guard's `onError`
 * hears of it, and the hold ends by itself.
 */
export function captureAtEnd(request: object, cost: () => string): void {
  const held = heldFor(request, 'captureAtEnd');
  held.costAtEnd = cost;
  settleIfOver(held);
}

/** Notes the hold of a request, and gives what is to be told of the request. */
export function noteHold(
  request: object,
  client: Keytally,
  id: string | undefined,
  onError: (error: unknown) => void,
): HoldEvents {
  const held: Held = { id, client, onError, captures: Promise.resolve() };
  holds.set(request, held);
  const note = (event: 'isAnswered' | 'hasLeft' | 'isHandled') => () => {
    held[event] = true;
    settleIfOver(held);
  };
  return { answered: note('isAnswered'), left: note('hasLeft'), handled: note('isHandled') };
}

/** Captures the cost at the end, or releases, once no handler can capture any more. Should that fail, the hold ends by itself. */
function settleIfOver(held: Held): void {
  const isOver = held.isAnswered || (held.hasLeft && (held.isHandled || held.costAtEnd));
  if (!isOver || held.isEnding || held.id === undefined) return;
  held.isEnding = true;
  noteSettling(held.client, settle(held, held.id).catch(held.onError));
}

async function settle(held: Held, holdId: string): Promise<void> {
  // Others may begin meanwhile.
  for (let waited; waited !== held.captures;) await (waited = held.captures);
  if (held.isCaptured) return;
  const usage = held.costAtEnd?.() ?? '0';
  await (ZERO.test(usage) ? held.client.holds.release({ holdId }) : held.client.holds.capture({ holdId, usage }));
}

/** Whether keytally refused a capture for what it is, or it could not be sent, so that the credits are still held. */
function hasCapturedNothing(error: unknown): boolean {
  return !(error instanceof KeytallyError) || (error.code !== 0 && !error.isAway && error.status !== CONFLICT);
}

function heldFor(request: object, caller: string): Held {
  const held = holds.get(request);
  if (!held) throw new Error(`${caller}(): no keytally guard with a hold ran before this handler`);
  return held;
}

/** The same body, and a call once it has ended: read to its end, cancelled or failed. */
export function watchBody(body: ReadableStream<Uint8Array>, ended: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        ended();
        controller.close();
      } catch (error) {
        ended();
        throw error;
      }
    },
    cancel(reason) {
      ended();
      return reader.cancel(reason);
    },
  });
}
