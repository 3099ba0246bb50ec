import { setTimeout as sleep } from 'node:timers/promises';
import { foreignText, makeKey, type Key } from './participants.ts';
import type { Change } from './manager.ts';
import type { ChangeLoad } from './change-load.ts';

/** A key's life, from its creation to its deletion, with calls all the while. `keep` gets the key once it is made. */
export async function liveKey(load: ChangeLoad, keep: (key: Key) => void): Promise<void> {
  const { manager, participants, random } = load;
  const name = `churned-${random.between(0, 1e9)}`;
  const imported = random.chance(0.5) ? { secrets: [foreignText()] } : {};
  const key = await makeKey(manager, participants.workspaceId, name, participants.roomy[0]!.meter, imported);
  if (!key) return;
  keep(key);
  let over = false;
  const calls = callUntil(load, key, () => over);
  for (let steps = random.between(1, 5); steps > 0 && !load.stopped(); steps--) {
    await sleep(random.between(50, 250));
    if (!(await changeKey(load, key))) break;
  }
  await deleteKey(load, key);
  // A late write to Redis must not bring the key back.
  await sleep(1_000);
  over = true;
  await calls;
}

async function callUntil({ verifier, random }: ChangeLoad, key: Key, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    // Now and then with a secret of before, which must stay refused.
    const secretIndex = random.between(random.chance(0.3) ? 0 : key.secrets.length - 1, key.secrets.length - 1);
    await verifier.verify(key, { costMicros: random.between(0, 1_000), secretIndex });
    await sleep(random.between(20, 60));
  }
}

/** Makes one change. Gives whether its outcome is known: if not, only the key's deletion is still certain. */
async function changeKey(load: ChangeLoad, key: Key): Promise<boolean> {
  const { random } = load;
  switch (random.between(0, 2)) {
    case 0:
      if (!(await patchKey(load, key, 'key.disable', { enabled: false }))) return false;
      await sleep(random.between(50, 200));
      return patchKey(load, key, 'key.enable', { enabled: true });
    case 1:
      return rotateKey(load, key);
    default:
      return patchKey(load, key, 'key.rename', { name: `renamed-${random.between(0, 1e9)}` });
  }
}

async function rotateKey(load: ChangeLoad, key: Key): Promise<boolean> {
  const path = `${pathOf(load, key)}/rotate`;
  const change: Change = {
    what: 'key.rotate',
    of: key.id,
    method: 'post',
    path,
    detail: { secretIndex: key.secrets.length },
  };
  const answer = await load.manager.insist(change);
  if (answer) key.secrets.push(answer.apiKey!.key);
  return answer !== undefined;
}

async function patchKey(
  load: ChangeLoad,
  key: Key,
  what: Change['what'],
  body: { name?: string; enabled?: boolean },
): Promise<boolean> {
  const detail = body.name === undefined ? {} : { name: body.name };
  const path = pathOf(load, key);
  const { http } = await load.manager.once({ what, of: key.id, method: 'patch', path, body, detail });
  return http === 200;
}

/** Deletes a key, half of the time while another api is changing it: deletion is final all the same. */
async function deleteKey(load: ChangeLoad, key: Key): Promise<void> {
  const { manager, random } = load;
  const path = pathOf(load, key);
  const late = random.chance(0.5)
    ? manager.once({ what: 'key.enable', of: key.id, method: 'patch', path, body: { enabled: true }, at: 'api-1' })
    : undefined;
  await sleep(random.between(0, 20));
  await manager.insist({ what: 'key.delete', of: key.id, method: 'delete', path, at: 'api-2' });
  await late;
}

function pathOf({ participants }: ChangeLoad, key: Key): string {
  return `/workspace/${participants.workspaceId}/api-key/${key.id}`;
}
