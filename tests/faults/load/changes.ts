import { setTimeout as sleep } from 'node:timers/promises';
import { formatCredits } from '../../../shared/values/credits.ts';
import { grantBySchedule, grantSoon } from './grants.ts';
import { liveKey } from './key-life.ts';
import type { ChangeLoad } from './change-load.ts';
import type { Key } from './participants.ts';
import type { Token } from './traffic.ts';

const CHURNED_AT_ONCE = 3;
const MICRO = 1e-6;

/** Changes that are being made, and the keys that were made for it. */
export type Changes = { keys: Key[]; stop(): Promise<void> };

/** Makes changes of every kind, and verifies what is changed, until it is stopped. */
export function startChanges(options: Omit<ChangeLoad, 'stopped'>): Changes {
  const keys: Key[] = [];
  let stopped = false;
  let refills = 0;
  let grants = 0;
  const load: ChangeLoad = { ...options, stopped: () => stopped };
  const { manager, random, participants } = load;
  const granted = participants.granted?.meter;

  const repeat = async (pauseMs: number, change: () => Promise<unknown>) => {
    while (!stopped) {
      await change();
      await sleep(random.between(pauseMs / 2, pauseMs * 1.5));
    }
  };
  const loops = [
    ...Array.from({ length: CHURNED_AT_ONCE }, () => repeat(50, () => liveKey(load, (key) => keys.push(key)))),
    repeat(500, () => refill(load, ++refills)),
    repeat(500, () => adjust(load)),
    ...(granted ? [repeat(500, () => grantSoon(load, granted, ++grants)), grantBySchedule(load, granted)] : []),
    repeat(300, () => useToken(load)),
    repeat(150, () => renameWorkspace(load)),
    repeat(60, () => manager.read(`/workspace/${participants.workspaceId}`)),
  ];
  return {
    keys,
    async stop() {
      stopped = true;
      await Promise.all(loops);
    },
  };
}

/** Refills a record. No two refills have the same amount, so that the ledger shows which of them it holds. */
async function refill({ manager, participants, random }: ChangeLoad, number: number): Promise<void> {
  const { meter } = participants.tight[0]!;
  const amountMicros = random.between(2, 8) * 1_000_000 + number;
  const { workspaceId } = participants;
  await manager.insist({
    what: 'billing.refill',
    of: meter!.billing,
    method: 'post',
    path: '/customer-billing/refill',
    body: { workspaceId, externalMeterId: meter!.name, refill: Number((amountMicros * MICRO).toFixed(6)) },
    detail: { amountMicros },
  });
}

/** Corrects a record up or down, under a usage name of its own by which the books show it. */
async function adjust({ manager, participants, random }: ChangeLoad): Promise<void> {
  const { meter } = participants.repeated;
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

/** Makes an access token, verifies with it, revokes it, and verifies with it for a while longer. */
async function useToken({ manager, verifier, participants }: ChangeLoad): Promise<void> {
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
      await verifier.verify(participants.unmetered, { token });
      await sleep(40);
    }
  };
  await use(700);
  await manager.insist({ what: 'token.revoke', of: token.id, method: 'delete', path: `/access-token/${token.id}` });
  await use(1_500);
}

async function renameWorkspace({ manager, participants, random }: ChangeLoad): Promise<void> {
  const { workspaceId } = participants;
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
