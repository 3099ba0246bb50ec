import type { Keytally } from './client.ts';
import type { Contract } from './contract.ts';

type Captured = Contract['post /api/v1/usage/capture']['output'];

/** The hold of a request, until it is captured or released. */
type Held = { id: string | undefined; client: Keytally; isSettled: boolean; costAtEnd?: () => string };

const holds = new WeakMap<object, Held>();
// Nothing else is: a cost of "" is a mistake, which keytally refuses.
const ZERO = /^0+(\.0+)?$/;

/**
 * Debits what a request did cost, for a handler behind a guard with `hold`, and releases the rest. It takes what the guard got, as
 * `identityOf` does. Call it before the answer ends: then what was not captured is released. Of a key without a billing record
 * nothing is held, and `undefined` comes back.
 */
export async function capture(request: object, usage: string): Promise<Captured | undefined> {
  const held = heldFor(request, 'capture');
  held.isSettled = true;
  return held.id === undefined ? undefined : held.client.holds.capture({ holdId: held.id, usage });
}

/**
 * Captures once the answer has ended, also because the end client went away: for streams, whose cost grows until then. `cost` is
 * called then; a cost of 0 releases. Should it fail, or the capture, the guard's `onError` hears of it, and the hold ends by itself.
 */
export function captureAtEnd(request: object, cost: () => string): void {
  heldFor(request, 'captureAtEnd').costAtEnd = cost;
}

/** Notes the hold of a request. Gives what settles it once its answer has ended without a capture. */
export function noteHold(
  request: object,
  client: Keytally,
  id: string | undefined,
  onError: (error: unknown) => void,
): () => void {
  const held: Held = { id, client, isSettled: false };
  holds.set(request, held);
  return () => {
    if (held.isSettled || id === undefined) return;
    held.isSettled = true;
    // Should that fail, the hold ends by itself.
    settle(client, id, held.costAtEnd).catch(onError);
  };
}

async function settle(client: Keytally, holdId: string, cost?: () => string): Promise<void> {
  const usage = cost ? cost() : '0';
  await (ZERO.test(usage) ? client.holds.release({ holdId }) : client.holds.capture({ holdId, usage }));
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
