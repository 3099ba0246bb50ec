import type { Keytally } from './client.ts';
import type { Contract } from './contract.ts';
import { KeytallyError } from './error.ts';
import { noteSettling } from './settling.ts';

type Captured = Contract['post /api/v1/usage/capture']['output'];

/** What a guard tells of a request with a hold. */
export type HoldEvents = {
  /** The answer has ended. */
  answered(): void;
  /** The end client went away before that. The handler may still work, and capture. */
  left(): void;
  /** The handler has ended. */
  handled(): void;
};
type Held = { capture(usage: string): Promise<Captured | undefined>; captureAtEnd(cost: () => string): void };

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
  return heldFor(request, 'capture').capture(usage);
}

/**
 * Captures once the answer has ended, also because the end client went away: for streams, whose cost grows until then. `cost` is
 * called then, or at once where the end client is gone; a cost of 0 releases. Should it fail, or the capture, the guard's `onError`
 * hears of it, and the hold ends by itself.
 */
export function captureAtEnd(request: object, cost: () => string): void {
  heldFor(request, 'captureAtEnd').captureAtEnd(cost);
}

/** Notes the hold of a request, and gives what is to be told of the request. */
export function noteHold(
  request: object,
  client: Keytally,
  id: string | undefined,
  onError: (error: unknown) => void,
): HoldEvents {
  // Over once no capture is under way, which keytally may refuse.
  let captures: Promise<unknown> = Promise.resolve();
  let costAtEnd: (() => string) | undefined;
  // It is captured where it may be, too.
  const is = { captured: false, ending: false, answered: false, left: false, handled: false };

  async function capture(usage: string): Promise<Captured | undefined> {
    if (id === undefined) return undefined;
    const capturing = client.holds.capture({ holdId: id, usage });
    const noted = capturing.then(
      () => (is.captured = true),
      (error: unknown) => {
        if (!hasCapturedNothing(error)) is.captured = true;
      },
    );
    captures = Promise.all([captures, noted]);
    noteSettling(client, noted);
    return capturing;
  }

  /** Captures the cost at the end, or releases, once no handler can capture any more. Should that fail, the hold ends by itself. */
  function settleIfOver(): void {
    const isOver = is.answered || (is.left && (is.handled || costAtEnd));
    if (!isOver || is.ending || id === undefined) return;
    is.ending = true;
    noteSettling(client, settle(id).catch(onError));
  }

  async function settle(holdId: string): Promise<void> {
    // Others may begin meanwhile.
    for (let waited; waited !== captures;) await (waited = captures);
    if (is.captured) return;
    const usage = costAtEnd?.() ?? '0';
    await (ZERO.test(usage) ? client.holds.release({ holdId }) : client.holds.capture({ holdId, usage }));
  }

  const note = (event: keyof HoldEvents) => () => {
    is[event] = true;
    settleIfOver();
  };
  const captureAtEnd = (cost: () => string) => {
    costAtEnd = cost;
    settleIfOver();
  };
  holds.set(request, { capture, captureAtEnd });
  return { answered: note('answered'), left: note('left'), handled: note('handled') };
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
