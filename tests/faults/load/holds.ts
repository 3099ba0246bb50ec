import { setTimeout as sleep } from 'node:timers/promises';
import { formatCredits } from '../../../shared/values/credits.ts';
import type { Random } from '../../helpers/random.ts';
import type { Held, History, Settled } from '../history.ts';
import type { Stage } from '../stage.ts';
import { call, type Reply } from './client.ts';
import { codeOf } from './manager.ts';
import type { Key } from './participants.ts';

type Wanted = { micros: number; seconds: number; onExpiry: Held['onExpiry']; idempotent: boolean };
type Hold = { call: string; id: string; key: Key; wanted: Wanted };

const TARGETS = ['verify-1', 'verify-2', 'api-1', 'api-2'] as const;
const REPEAT_AFTER_MS = 100;
// A hold is answered again for 60 s.
const REPEAT_WITHIN_MS = 30_000;
const LATE_BY_MS = 500;

/** What becomes of a hold. Those that are left alone end by themselves. */
const LIVES = ['capture', 'capture', 'again', 'other', 'late', 'release', 'extend', 'leave', 'leave'] as const;

/** Holds credits of keys, and settles the holds in every way; records every attempt. */
export function makeHolder(stage: Stage, history: History, random: Random, phase: number) {
  let made = 0;

  async function holdOnce(name: string, key: Key, wanted: Wanted): Promise<Held> {
    const at = random.pick(TARGETS);
    const from = history.now();
    const { micros, seconds, onExpiry, idempotent } = wanted;
    const hold = { expiresIn: seconds, onExpiry };
    const reply = await call('post', `${stage.url(at)}/api/v1/api-key/verify`, {
      token: stage.token,
      body: { key: key.secrets[0], billing: { usage: formatCredits(micros), usageName: name, hold } },
      headers: idempotent ? { 'Idempotency-Key': name } : {},
    });
    const { status, hold: opened } = reply.body;
    const line: Held = {
      type: 'hold',
      phase,
      call: name,
      from,
      to: history.now(),
      at,
      key: key.id,
      billing: key.meter!.billing,
      micros,
      forMs: seconds * 1_000,
      onExpiry,
      idempotent,
      ...outcome(reply),
      ...(status !== undefined && { status }),
      ...(opened && { hold: opened.id }),
    };
    history.add(line);
    return line;
  }

  async function hold(key: Key, wanted: Wanted): Promise<Hold | undefined> {
    const name = `hold-${phase}-${made++}-${random.between(0, 1e9)}`;
    const until = performance.now() + REPEAT_WITHIN_MS;
    let line = await holdOnce(name, key, wanted);
    while (wanted.idempotent && isOpen(line) && performance.now() < until) {
      await sleep(REPEAT_AFTER_MS);
      line = await holdOnce(name, key, wanted);
    }
    return line.hold === undefined ? undefined : { call: name, id: line.hold, key, wanted };
  }

  /** Settles a hold, again and again until it is decided. */
  async function settle(what: Settled['what'], { call: name, id, key }: Hold, amount: number): Promise<void> {
    const until = performance.now() + REPEAT_WITHIN_MS;
    const more = { capture: { usage: formatCredits(amount) }, release: {}, extend: { expiresIn: amount } }[what];
    for (;;) {
      const at = random.pick(TARGETS);
      const from = history.now();
      const url = `${stage.url(at)}/api/v1/usage/${what}`;
      const reply = await call('post', url, { token: stage.token, body: { holdId: id, ...more } });
      const line: Settled = {
        type: 'settle',
        phase,
        call: name,
        from,
        to: history.now(),
        at,
        billing: key.meter!.billing,
        what,
        ...(what === 'capture' && { micros: amount }),
        ...outcome(reply),
      };
      history.add(line);
      if (!isOpen(line) || performance.now() > until) return;
      await sleep(REPEAT_AFTER_MS);
    }
  }

  /** One hold from its beginning to its end. `within`: it costs at most what it holds, and is settled in time. */
  return async function liveHold(key: Key, within: boolean): Promise<void> {
    const onExpiry = within ? 'release' : random.pick(['release', 'charge'] as const);
    const micros = random.between(1, 1_000_000);
    const seconds = random.between(1, 2);
    const held = await hold(key, { micros, seconds, onExpiry, idempotent: random.chance(0.5) });
    if (!held) return sleep(REPEAT_AFTER_MS);
    const cost = random.between(0, within ? micros : 2 * micros);
    const life = random.pick(within ? LIVES.filter((one) => one !== 'late') : LIVES);
    if (life === 'leave') return;
    await sleep(life === 'late' ? seconds * 1_000 + LATE_BY_MS : random.between(0, 300));
    if (life === 'release') return settle('release', held, 0);
    if (life === 'extend') await settle('extend', held, 2);
    await settle('capture', held, cost);
    if (life === 'again') await settle('capture', held, cost);
    if (life === 'other') await settle('capture', held, cost + 1);
  };
}

function isOpen({ http = 500 }: { http?: number }): boolean {
  return http >= 500;
}

function outcome(reply: Reply): { http: number; code: number } | { error: string } {
  const { http, error = '' } = reply;
  return http === undefined ? { error } : { http, code: codeOf(reply) };
}
