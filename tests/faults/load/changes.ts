import { setTimeout as sleep } from 'node:timers/promises';
import { formatCredits } from '../../../shared/values/credits.ts';
import { makeKey, type Cast, type Key } from './participants.ts';
import type { Change, Manager } from './manager.ts';
import type { Random } from '../random.ts';
import type { Token, Verifier } from './traffic.ts';

const CHURNED_AT_ONCE = 3;
const MICRO = 1e-6;

/** Changes that are being made, and the keys that were made for it. */
export type Changes = { keys: Key[]; stop(): Promise<void> };

/** Makes changes of every kind, and verifies what is changed, until it is told to stop. */
export function startChanges(manager: Manager, verifier: Verifier, cast: Cast, random: Random): Changes {
  const keys: Key[] = [];
  let stopped = false;
  let refills = 0;
  const { workspaceId } = cast;
  const path = (key: Key) => `/workspace/${workspaceId}/api-key/${key.id}`;

  const until = async (pauseMs: number, one: () => Promise<unknown>) => {
    while (!stopped) {
      await one();
      await sleep(random.between(pauseMs / 2, pauseMs * 1.5));
    }
  };

  /** A key's life, from its making to its end, under calls all the while. */
  async function live(): Promise<void> {
    const key = await makeKey(manager, workspaceId, `churned-${random.between(0, 1e9)}`, cast.roomy[0]!.meter);
    if (!key) return;
    keys.push(key);
    let over = false;
    const calls = (async () => {
      while (!over) {
        // Now and then an earlier text, which must stay refused.
        const text = random.between(random.chance(0.3) ? 0 : key.texts.length - 1, key.texts.length - 1);
        await verifier.verify(key, { costMicros: random.between(0, 1_000), text });
        await sleep(random.between(20, 60));
      }
    })();
    for (let steps = random.between(1, 5); steps > 0 && !stopped; steps--) {
      await sleep(random.between(50, 250));
      if (!(await step(key))) break;
    }
    await end(key);
    // What comes late to Redis must not bring it back.
    await sleep(1_000);
    over = true;
    await calls;
  }

  /** Gives whether it is known what came of it: else only its end is still certain. */
  async function step(key: Key): Promise<boolean> {
    switch (random.between(0, 2)) {
      case 0:
        return (
          (await patch(key, 'key.disable', { enabled: false })) &&
          (await sleep(random.between(50, 200)).then(() => patch(key, 'key.enable', { enabled: true })))
        );
      case 1: {
        const text = key.texts.length;
        const change: Change = { what: 'key.rotate', of: key.id, method: 'post', path: `${path(key)}/rotate` };
        const answer = await manager.insist({ ...change, detail: { text } });
        if (answer) key.texts.push(answer.apiKey!.key);
        return answer !== undefined;
      }
      default:
        return patch(key, 'key.rename', { name: `renamed-${random.between(0, 1e9)}` });
    }
  }

  async function patch(key: Key, what: Change['what'], body: { name?: string; enabled?: boolean }): Promise<boolean> {
    const detail = body.name === undefined ? {} : { name: body.name };
    const { http } = await manager.once({ what, of: key.id, method: 'patch', path: path(key), body, detail });
    return http === 200;
  }

  /** Deletes a key, half of the time while another api is in the middle of changing it: deletion is final all the same. */
  async function end(key: Key): Promise<void> {
    const late = random.chance(0.5) ? patchAt('api-1', key) : undefined;
    await sleep(random.between(0, 20));
    await manager.insist({ what: 'key.delete', of: key.id, method: 'delete', path: path(key), at: 'api-2' });
    await late;
  }

  async function patchAt(at: string, key: Key): Promise<void> {
    const body = { enabled: true };
    await manager.once({ what: 'key.enable', of: key.id, method: 'patch', path: path(key), body, at });
  }

  async function refill(): Promise<void> {
    const { meter } = cast.tight[0]!;
    // Each amount but once, so that the ledger tells which of them it holds.
    const amountMicros = random.between(2, 8) * 1_000_000 + ++refills;
    await manager.insist({
      what: 'billing.refill',
      of: meter!.billing,
      method: 'post',
      path: '/customer-billing/refill',
      body: { workspaceId, externalMeterId: meter!.name, refill: Number((amountMicros * MICRO).toFixed(6)) },
      detail: { amountMicros },
    });
  }

  /** Corrects a record up and down, under a usage name of its own, by which the books tell it. */
  async function adjust(): Promise<void> {
    const { meter } = cast.repeated;
    const amountMicros = random.pick([-1, 1]) * random.between(1, 1_000_000);
    const usageName = `adjustment-${random.between(0, 1e9)}`;
    await manager.insist({
      what: 'billing.adjust',
      of: meter!.billing,
      method: 'post',
      path: `/customer-billing/${meter!.billing}/adjustment`,
      body: { amount: formatCredits(amountMicros), reason: 'a fault', usageName },
      detail: { amountMicros, usageName },
    });
  }

  async function useToken(): Promise<void> {
    const made = await manager.insist({
      what: 'token.create',
      method: 'post',
      path: '/access-token',
      body: { name: 'gateway', permissions: ['key:verify'] },
      learn: (body) => ({ of: body.accessToken!.id }),
    });
    if (!made) return;
    const token: Token = { id: made.accessToken!.id, text: made.accessToken!.token };
    const use = async (ms: number) => {
      const from = performance.now();
      while (performance.now() - from < ms) {
        await verifier.verify(cast.unmetered, { token });
        await sleep(40);
      }
    };
    await use(700);
    await manager.insist({ what: 'token.revoke', of: token.id, method: 'delete', path: `/access-token/${token.id}` });
    await use(1_500);
  }

  async function rename(): Promise<void> {
    const name = `renamed-${random.between(0, 1e9)}`;
    await manager.once({
      what: 'workspace.rename',
      of: workspaceId,
      method: 'patch',
      path: `/workspace/${workspaceId}`,
      body: { name },
      detail: { name },
    });
  }

  const lines = [
    ...Array.from({ length: CHURNED_AT_ONCE }, () => until(50, live)),
    until(500, refill),
    until(500, adjust),
    until(300, useToken),
    until(150, rename),
    until(60, () => manager.read(`/workspace/${workspaceId}`)),
  ];
  return {
    keys,
    async stop() {
      stopped = true;
      await Promise.all(lines);
    },
  };
}
